"""`gpuspawner diff`, and the comparison that `gpuspawner convert --verify` uses: what changes for whom.

In: two values files, with a ``profile_list`` or with settings of gpuspawner. Out: for each choice that users have,
whether the pod and the users who may have it are the same, and what differs. The package builds pods with the
spawners' own code, without a hub, a cluster or a network.

- ``command``: arguments and output of ``diff``, and the table.
- ``comparison``: pairs the choices of both files and compares them, ``compare_values``.
- ``menu``: what users can pick, samples of it, and which picks correspond.
- ``pods``: facts of a pod, and the differences between two pods.
- ``sides``: one values file, with its spawner.
"""

from gpuspawner.cli.compare.command import format_report
from gpuspawner.cli.compare.comparison import ChoicePair, ChoiceResult, ComparisonReport, Scope, compare_values

__all__ = [
    "ChoicePair",
    "ChoiceResult",
    "ComparisonReport",
    "Scope",
    "compare_values",
    "format_report",
]
