"""The node agent: a kubelet device plugin that gives each container exactly its card.

Pure modules decide (``lineup``, ``tenancy``, ``matching``, ``answer``, ``health``, ``facts``); the others
talk to the kubelet, the driver, the disk and the API server.
"""
