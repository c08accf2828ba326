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
from gpuspawner.cli.doctor.facts import Facts
from gpuspawner.cli.doctor.finding import Finding, rank

RULES: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    release.kubernetes,
    release.hub_missing,
    release.hub_failing,
    release.hub_image,
    rights.account_unknown,
    rights.missing_rights,
    rights.dangerous_rights,
    plugins.missing_plugins,
    plugins.failing_plugins,
    plugins.unlabelled_gpus,
    concerns.told_concerns,
    parts.mig_states,
    parts.mig_strategies,
    parts.shared_counts,
    nodes.not_ready,
    nodes.cordoned,
    nodes.in_trouble,
    choices.no_gpu,
    choices.types_nowhere,
    choices.drivers_too_old,
    choices.limits_too_large,
    growing.autoscaler_missing,
    growing.pools_exhausted,
    namespaces.namespace_missing,
    namespaces.quotas,
    namespaces.limit_ranges,
    namespaces.pull_secrets,
    classes.runtime_classes,
    classes.priority_classes,
    classes.queues,
    classes.storage,
    isolation.leaks,
    isolation.unprobed,
)


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """Return all that is wrong, the worst first."""
    return tuple(sorted((finding for rule in RULES for finding in rule(facts)), key=rank))
