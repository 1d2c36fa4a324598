"""Processes, locks, ports, folders and waiting, for the programs that work on a checkout.

What belongs here: what ``release``, ``testbed``, ``tools`` and ``tests`` share. What does not: clusters and
nodes (``testbed``), images and releases (``release``). It imports neither.
"""
