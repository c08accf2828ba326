"""`gpuspawner explain`: shows the pod of a choice and where it can run."""
