"""Counts starts, refusals, verdicts, servers and GPUs for Prometheus, on JupyterHub's ``/hub/metrics``.

In: starts, the pods in KubeSpawner's reflectors, the age of the cluster's data, the state of the settings files.
Out: metrics with JupyterHub's prefix. Their labels never contain text that a user typed.

A verdict is gpuspawner's prediction whether a pod starts now. This package has no effect on starts and sends no
requests to the API server.

- ``registry``: counters and histograms of starts, stages, verdicts and refusals, and the metrics whose values are
  computed at each scrape.
- ``starts``: measures one start, and classifies its outcome.
"""
