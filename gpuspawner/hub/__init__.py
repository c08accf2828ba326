"""Connects core to JupyterHub and KubeSpawner.

JupyterHub calls the spawner. The spawner returns the form's HTML, progress messages and HTTP errors, and sets
KubeSpawner's traits. This package gathers facts; ``gpuspawner.core`` evaluates the policy and predicts the verdict.

- ``spawner``: :class:`GPUSpawner`. ``startup``: checks of the settings when the hub starts.
- ``errors``: what users see of an error, and which failed starts count as failures of the hub.
- ``trait_overrides``: set and restore traits. ``spawner_protocol``: protocols of a spawner's attributes.
- ``config``: traits and offers. ``request``: the current HTTP request. ``kubespawner``: KubeSpawner's reflectors.
- ``admission``: admit a user's choice. ``pod``: build its pod. ``start``: run its start.
- ``form``: render the spawn form. ``metrics``: Prometheus metrics.
"""
