"""Enforcement on the node: limit files and regions of containers, launch rates, uncounted memory."""
