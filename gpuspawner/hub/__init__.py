"""Connects ``gpuspawner.core`` to JupyterHub and KubeSpawner.

JupyterHub calls the spawner. The spawner returns the form's HTML and progress messages, raises HTTP errors, and sets
KubeSpawner's traits. This package reads traits, requests and pods; ``gpuspawner.core`` decides whether a user may have
the chosen resources, and predicts whether the pod starts now.

- ``spawner``: :class:`GPUSpawner`. ``startup``: checks of settings and trait names when the hub starts.
- ``errors``: what users see of an error, and which failed starts count as failures of the hub.
- ``trait_overrides``: set traits for one start. ``spawner_protocol``: typing protocols that describe spawners.
- ``config``: traits, and the resources that users can choose. ``request``: the current HTTP request.
- ``kubespawner``: read and repair KubeSpawner's reflectors. ``admission``: admit or refuse user options.
- ``pod``: build the pod of a server. ``start``: run a start. ``form``: render the spawn form.
- ``metrics``: Prometheus metrics.
"""
