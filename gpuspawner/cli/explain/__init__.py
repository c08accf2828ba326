"""`gpuspawner explain`: predicts whether a server starts with one choice of options, and shows its pod.

In: a choice, a user, values files and a cluster. Out: when the server starts, why nodes reject its pod, similar
choices that start now, and the pod's manifest. The package uses the hub's own code for each step, creates nothing in
the cluster, and imports no other command.

- ``command``: arguments and output.
- ``explanation``: the prediction, ``explain_choice``.
"""

__all__ = ["command"]
