"""The list of all rules; a new rule is a function in a module of this room and a line in :data:`RULES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuspawner.cli.doctor import (
    choices,
    device_plugins,
    gpu_sharing,
    hub_health,
    namespace,
    node_health,
    referenced_objects,
)
from gpuspawner.cli.doctor.diagnosis import Diagnosis, rank_diagnosis
from gpuspawner.cli.doctor.facts import ClusterFacts

RULES: tuple[Callable[[ClusterFacts], Iterable[Diagnosis]], ...] = (
    hub_health.check_kubernetes_version,
    hub_health.check_hub_exists,
    hub_health.check_hub_runs,
    hub_health.check_hub_image,
    hub_health.check_hub_account,
    hub_health.check_missing_rights,
    hub_health.check_dangerous_rights,
    device_plugins.check_plugins_exist,
    device_plugins.check_plugins_run,
    device_plugins.check_gpu_labels,
    node_health.check_hub_flags,
    gpu_sharing.check_mig_states,
    gpu_sharing.check_mig_strategies,
    gpu_sharing.check_shared_counts,
    node_health.check_nodes_ready,
    node_health.check_cordoned_nodes,
    node_health.check_node_conditions,
    choices.check_any_gpu,
    choices.check_types_exist,
    choices.check_drivers,
    choices.check_bounds,
    choices.check_autoscaler,
    choices.check_node_pools,
    namespace.check_namespace,
    namespace.check_quotas,
    namespace.check_limit_ranges,
    namespace.check_pull_secrets,
    referenced_objects.check_runtime_classes,
    referenced_objects.check_priority_classes,
    referenced_objects.check_queues,
    referenced_objects.check_storage,
    gpu_sharing.check_gpu_leaks,
    gpu_sharing.check_unprobed_nodes,
)


def diagnose(facts: ClusterFacts) -> tuple[Diagnosis, ...]:
    """Return the findings of all rules, the worst first.

    :param facts: of the cluster and the settings.
    """
    return tuple(sorted((finding for rule in RULES for finding in rule(facts)), key=rank_diagnosis))
