"""Connects core to JupyterHub and KubeSpawner: the spawner, its traits, form, admission, start and metrics."""
