"""`gpuspawner check`: finds mistakes in values files."""
