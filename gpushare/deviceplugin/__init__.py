"""The node agent: a kubelet device plugin that allocates shares of GPUs to containers.

``core`` decides and is pure. ``kubelet`` serves the device plugin API, ``api`` talks to the API server,
``isolation`` enforces limits, and ``node`` owns the node state and its record.
"""
