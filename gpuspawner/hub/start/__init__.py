"""Checks a start's pod before KubeSpawner creates it, reports progress, and ends a start that cannot succeed.

KubeSpawner creates the pod and waits for it. This package decides whether to end the wait, and tells the user why.

The input is a spawner with valid user options, the cluster's nodes, and the pods and events in KubeSpawner's
reflectors. The output is messages for the progress page, and a :class:`~gpuspawner.hub.errors.RefusedStart` with other
choices that may work, or a ``SlowStartError``.

- ``state``: the state of one start. ``preflight``: dry run of the pod, check whether the pod can fit a node, and
  removal of the volume claims of a refused start.
- ``gpu_nodes``: prevents kube-scheduler from placing servers without a GPU on GPU nodes while other nodes have room.
- ``supervisor``: ends a start that cannot succeed. ``observer``: collects the facts about the start's pod.
- ``open_starts``: follows starts until they have ended. ``server_life``: what JupyterHub reads of a server's life.
- ``stream``: progress and the cancel button for open pages.
- ``alternatives``: adds links to similar choices to the error of a failed start;
  :mod:`gpuspawner.core.verdict.alternatives` finds and orders these choices.
- ``endings``: the pods that failed starts have left, and the reasons why servers ended. ``resumption``: starts that
  outlast the hub's process.
"""
