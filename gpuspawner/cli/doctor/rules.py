"""All rules, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuspawner.cli.doctor import (
    choices,
    classes,
    concerns,
    growing,
    isolation,
    namespaces,
    nodes,
    parts,
    plugins,
    release,
    rights,
)
from gpuspawner.cli.doctor.facts import ClusterFacts
from gpuspawner.cli.doctor.finding import Diagnosis, rank_diagnosis

RULES: tuple[Callable[[ClusterFacts], Iterable[Diagnosis]], ...] = (
    release.check_kubernetes_version,
    release.check_hub_exists,
    release.check_hub_runs,
    release.check_hub_image,
    rights.check_hub_account,
    rights.check_missing_rights,
    rights.check_dangerous_rights,
    plugins.check_plugins_exist,
    plugins.check_plugins_run,
    plugins.check_gpu_labels,
    concerns.check_hub_flags,
    parts.check_mig_states,
    parts.check_mig_strategies,
    parts.check_shared_counts,
    nodes.check_nodes_ready,
    nodes.check_cordoned_nodes,
    nodes.check_node_conditions,
    choices.check_any_gpu,
    choices.check_types_exist,
    choices.check_drivers,
    choices.check_bounds,
    growing.check_autoscaler,
    growing.check_node_pools,
    namespaces.check_namespace,
    namespaces.check_quotas,
    namespaces.check_limit_ranges,
    namespaces.check_pull_secrets,
    classes.check_runtime_classes,
    classes.check_priority_classes,
    classes.check_queues,
    classes.check_storage,
    isolation.check_gpu_leaks,
    isolation.check_unprobed_nodes,
)


def diagnose(facts: ClusterFacts) -> tuple[Diagnosis, ...]:
    """Return all that is wrong, the worst first."""
    return tuple(sorted((finding for rule in RULES for finding in rule(facts)), key=rank_diagnosis))
