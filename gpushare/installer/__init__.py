"""The daemon that installs the isolation library on a node."""
