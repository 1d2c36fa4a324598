"""The daemon that runs the MPS control daemons of a node."""
