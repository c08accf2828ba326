"""The demo: a local cluster with GPU nodes and a JupyterHub on it, or a JupyterHub on a cluster of the user's own."""
