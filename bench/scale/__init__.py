"""The cost of a large cluster for the hub: ours beside that of others, on a real API server."""
