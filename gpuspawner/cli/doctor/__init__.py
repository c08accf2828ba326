"""`gpuspawner doctor`: finds faults in a cluster and in a release of zero-to-jupyterhub.

In: a cluster view, and objects that ``fact_reader`` reads with the admin's own rights. Out: findings with severity,
consequence and fix. A rule is a function from ``ClusterFacts`` to findings and must not read the cluster. Only
``isolation_probe`` changes the cluster: for ``--probe`` it starts pods and deletes them.

- ``command``: arguments, ``RULES`` (the list of all rules) and output.
- ``facts``: what rules examine; ``fact_reader``, ``api``: requests for these facts; ``diagnosis``: a finding.
- Rules about the hub: ``hub_health``, ``pod_health``; about nodes and their device plugins: ``node_health``,
  ``gpu_sharing``; about settings: ``choices``, ``namespace``, ``referenced_objects`` (priority classes, queues,
  storage classes and other objects that Helm values name).
"""

__all__ = ["command"]
