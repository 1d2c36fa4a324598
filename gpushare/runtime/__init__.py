"""Plumbing that every daemon shares: logs, signals, HTTP servers. Nothing about GPUs."""
