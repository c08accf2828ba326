"""How many actions it takes to start a server with a choice of one's own, beside KubeSpawner's form."""
