"""The API server's side: watches of the node and its pods, and writes back to both."""
