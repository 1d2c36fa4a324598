"""The Kubernetes API: credentials, requests, codec, lists and watches.

The only package that imports ``kubernetes``, and only to read a kubeconfig; objects are decoded by the
msgspec codec in ``wire``.
"""
