"""`gpuspawner inventory`: lists GPU types and nodes."""
