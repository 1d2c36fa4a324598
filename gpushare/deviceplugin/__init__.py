"""The node agent: a kubelet device plugin that gives each container exactly its card.

Pure modules decide: ``lineup``, ``health``, ``modes``, ``ids``, ``tenancy``, ``matching``, ``decision``,
``joining``, ``answer``, ``published``, ``facts``. The others talk to the kubelet, the driver, the disk and
the API server.
"""
