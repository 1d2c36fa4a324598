"""The Kubernetes API: credentials, requests, our own codec, lists and watches.

The only package that imports ``kubernetes``. It uses that library's configuration loading and HTTP
transport; objects are decoded by the msgspec codec in ``wire``.
"""
