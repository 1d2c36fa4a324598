"""The Kubernetes API: credentials, requests, codec, lists and watches.

Objects are decoded by the msgspec codec in ``wire``.
"""
