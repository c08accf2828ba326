"""The glue to JupyterHub: traits, the spawner, rendering, and how errors reach people."""
