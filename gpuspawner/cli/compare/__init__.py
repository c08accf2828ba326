"""Compares two values files for `gpuspawner diff`: what changes for which users.

In: two values files, with a ``profile_list`` or with settings of gpuspawner. Out: for each choice that users have,
whether both files lead to the same pod, whether they allow the choice to the same users, and what differs. The package
builds pods with the spawners' own code, without a hub, a cluster or a network. In this package, the old side is the hub
with the first values file, and the new side is the hub with the second one.

- ``command``: arguments and output of ``diff``, and the table.
- ``comparison``: pairs the choices of both files and compares them.
- ``menu``: what users can pick with a values file, samples of these picks, and which picks of two files correspond.
- ``pods``: facts of a pod, such as its memory limit, and the differences between two pods.
- ``sides``: one of the two values files, as a hub would use it.
"""
