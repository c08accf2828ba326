"""Connects core to JupyterHub and KubeSpawner.

JupyterHub's calls enter through the spawner. HTML, trait values for KubeSpawner, messages of a start and HTTP errors
leave. The package decides no policy and no verdict: it gathers facts and asks ``gpuspawner.core``.

- ``spawner``: :class:`GPUSpawner`; ``startup``: the checks when the hub starts.
- ``errors``: what users see of an error, and which refused start counts as a failure of the hub.
- ``trait_overrides``: trait values for one start, and the way back; ``spawner_protocol``: what parts need of a spawner.
- ``config``, ``request``, ``kubespawner``: traits and offers; the current request; KubeSpawner's reflectors.
- ``admission``, ``pod``, ``start``: admit a choice, build its pod, run its start.
- ``form``, ``metrics``: the form; Prometheus.
"""
