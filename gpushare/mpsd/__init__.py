"""The MPS daemon: runs one MPS control daemon for each GPU of a node."""
