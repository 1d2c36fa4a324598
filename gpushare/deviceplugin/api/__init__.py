"""API server client of the agent: watches of the node and its pods, and writes back to both."""
