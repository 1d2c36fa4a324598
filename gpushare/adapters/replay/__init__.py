"""The native kernel of the placement policy ``replay``."""
