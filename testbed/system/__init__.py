"""Processes, locks, ports and folders of this machine."""
