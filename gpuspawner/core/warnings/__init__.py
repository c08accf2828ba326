"""Finds what an admin should fix: unusable GPUs, presets that cannot start, settings that name missing GPU types.

Enters: the nodes, the catalog built from them, the presets and the policy of the settings.
Leaves: :class:`AdminWarning` values, and the same in words for the form and the hub's log.
It must not reach users: warnings name nodes, labels and taints. It knows neither pods nor requests.

:mod:`.nodes` checks the nodes' GPUs. :mod:`.presets_and_policy` checks presets, rules and pools. :mod:`.wording`
groups and shortens warnings for display.
"""

from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind, find_node_warnings
from gpuspawner.core.warnings.presets_and_policy import find_policy_warnings, find_preset_warnings
from gpuspawner.core.warnings.wording import WarningsView, build_warnings_view

__all__ = [
    "AdminWarning",
    "WarningKind",
    "WarningsView",
    "build_warnings_view",
    "find_node_warnings",
    "find_policy_warnings",
    "find_preset_warnings",
]
