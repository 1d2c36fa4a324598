"""Deployment: pure builders of Kubernetes objects from settings, and Pulumi components that use them.

What does not belong here: the code of the daemons.
"""
