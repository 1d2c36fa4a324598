"""What people are told about placements: why a pod waits, and what would help."""
