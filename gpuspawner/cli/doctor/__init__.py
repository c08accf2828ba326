"""`gpuspawner doctor`: finds faults in a cluster and in a release of zero-to-jupyterhub.

In: the nodes as the hub sees them (``ClusterView``), and objects that ``fact_reader`` reads with the admin's own
rights. Out: findings with severity, consequence and fix. A rule is a function ``check_…`` that gets ``ClusterFacts``
and yields findings; it must not read the cluster. ``data/diagnoses.yaml`` has the severities and texts of all findings.
Only ``isolation_probe`` changes the cluster: for ``--probe`` it starts pods and deletes them.

- ``command``: arguments and output.
- ``facts``: the data that rules examine. ``fact_reader`` and ``api`` request the data from the API server.
- ``diagnosis``: the class of findings, and the table of their texts.
- Rules about the hub: ``hub_health``, ``pod_health``; about nodes and their device plugins: ``node_health``,
  ``gpu_sharing``; about settings: ``choices``, ``namespace``, ``referenced_objects`` (priority classes, queues,
  storage classes and other objects that Helm values name).
"""

__all__ = ["command"]
