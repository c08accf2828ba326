"""Compares two values files for `gpuspawner diff`: which choices of users give other pods.

In: two values files, with a ``profile_list`` or with settings of gpuspawner. Out: for each choice that users have,
whether both files lead to the same pod, and what differs. The package builds pods with the spawners' own code, without
a hub, a cluster or a network.

- ``command``: arguments and output of ``diff``.
- ``comparison``: pairs the choices of both files and compares their pods field by field.
- ``sides``: one of the two values files, as a hub would use it: its choices and their pods.
- ``choices``: the choices of a values file, in an order in which a part of them is a good sample.
"""

from gpuspawner.cli.diff import command

__all__ = ["command"]
