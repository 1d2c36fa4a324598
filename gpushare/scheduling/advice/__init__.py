"""Explains decisions to people: why a pod waits, and what would help."""
