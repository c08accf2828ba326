"""The cost of open progress pages for the hub, beside plain KubeSpawner's."""
