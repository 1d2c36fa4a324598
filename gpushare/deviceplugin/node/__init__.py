"""The state of the node: pods, GPUs and allocations, its record on disk, and what keeps it up to date."""
