"""Settings beside the nodes of a cluster: what nothing matches, nobody tolerates, no node can hold."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable, Iterator
from typing import cast

from gpuspawner.cli.check.setting_findings import located
from gpuspawner.cli.check.type_advice import undeclared_images
from gpuspawner.cli.cluster.cluster import PATIENCE_S, ClusterError, connected
from gpuspawner.cli.common.findings import Finding, Severity
from gpuspawner.cli.values.chart_values import pod_tolerations
from gpuspawner.cli.values.values import Values, merged_settings
from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.catalog.stocks import may_have, units
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.errors import Problem
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.core.warnings.flags import Flag, flagged
from gpuspawner.core.warnings.flags_view import MOST_FLAGS, flags_view
from gpuspawner.core.warnings.policy_flags import flagged_policy
from gpuspawner.core.warnings.preset_flags import flagged_presets
from gpuspawner.hub.config.offers import ClusterAPI, Offer, Offers, ParsedSettings
from gpuspawner.kube.store import Pace

_SILENT = logging.getLogger(__name__)
"""What the store says in a hub's log, this says in its own words."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_OF_THE_CONTROL_PLANE = "node-role.kubernetes.io/"


async def cluster_advice(
    values: Values, arguments: argparse.Namespace, *, patience_s: float = PATIENCE_S
) -> list[Finding]:
    """Return what is to be said of right settings on the cluster that the arguments name.

    :param patience_s: how long a first look may take.

    :raises ClusterError: it cannot be read.
    """
    async with connected(arguments) as cluster:
        offers, api = Offers(), cast("ClusterAPI", cluster.core)
        settings = offers.parse(merged_settings(values))
        store = offers.store(api, pace=Pace(first_sync_timeout_s=patience_s), log=_SILENT)
        try:
            offer = await offers.make(settings, store, image="")
        finally:
            await offers.stop()
    if offer.unread:
        message = f"{offer.unread} ({cluster.client.configuration.host})"
        raise ClusterError(Problem(field="cluster", code="unreadable", message=message))
    return list(beside_nodes(values, offer, settings=settings))


def workers(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that hold servers: those of the control plane do not."""
    return [node for node in nodes if not any(each.key.startswith(_OF_THE_CONTROL_PLANE) for each in node.taints)]


def beside_nodes(values: Values, offer: Offer, *, settings: ParsedSettings) -> Iterator[Finding]:
    """Yield warnings about settings on the nodes of an offer.

    :param offer: of nodes that were read.
    """
    nodes = offer.inventory.nodes or ()
    configured = settings.configured
    flags = (
        *flagged_presets(configured.presets, offer.catalogue),
        *flagged_policy(configured.policy, offer.catalogue),
        *flagged(nodes, offer.catalogue, table=settings.table, tolerations=pod_tolerations(values)),
    )
    problems = [problem for flag in flags[:MOST_FLAGS] for problem in _told(flag)]
    for slug, gpu in configured.gpus.items():
        problems += _type(slug, gpu, nodes=nodes, may_grow=bool(offer.inventory.growths))
    problems += _limits(settings, nodes)
    problems += undeclared_images(configured.images, offer.catalogue.gpus)
    yield from located(problems, values, severity=Severity.WARNING)


def _told(flag: Flag) -> Iterator[Problem]:
    view = flags_view([flag])
    subject, message = view.flags[0] if view is not None else ("", flag.message)
    if flag.nodes:
        yield Problem(field="gpus", code=flag.concern.value, message=f"{subject}: {message}")
    for slug in flag.presets:
        yield Problem(field=f"presets.{slug}", code=flag.concern.value, message=message)
    for path in flag.settings:
        yield Problem(field=path, code=flag.concern.value, message=message)


def _type(slug: str, gpu: GPUType, *, nodes: Iterable[Node], may_grow: bool) -> Iterator[Problem]:
    """Yield that a type has no nodes, or none that can hold as many as may be asked for."""
    labelled = [node for node in nodes if gpu.is_on(node.labels)]
    own = [node for node in labelled if may_have(node, gpu.resource)]
    if own:
        most = max(units(node, gpu.resource) for node in own)
        added = gpu.scale_up.gpus_per_node if gpu.scale_up is not None else 0
        if max(most, added) < gpu.max_count and not any(gpu.resource in node.uncounted for node in own):
            message = f"is more than any node has: {gpu.max_count} in one server, and {max(most, added)} on the largest"
            yield Problem(field=f"gpus.{slug}.max_count", code="too_large", message=message)
    elif gpu.scale_up is None and not may_grow:
        lacking = f"{len(labelled)} have the labels, none of them {gpu.resource}" if labelled else "none has the labels"
        message = f"matches no node ({lacking}), and there is no scale_up that says one may come"
        yield Problem(field=f"gpus.{slug}", code="matches_nothing", message=message)


def _limits(settings: ParsedSettings, nodes: Iterable[Node]) -> Iterator[Problem]:
    """Yield limits that are more than the largest node has for pods."""
    usable = workers(nodes)
    for name, bounds, show in (
        ("cpu", settings.configured.cpu, format_cpu),
        ("memory", settings.configured.memory, format_memory),
    ):
        most = max((node.allocatable.get(name, 0) for node in usable), default=0)
        if bounds is not None and usable and bounds.max * bounds.guarantee > most:
            what = "of it " if bounds.guarantee == 1 else f"({bounds.guarantee:g} of it is requested) "
            message = f"is more than any node can hold: the largest has {show(most)} for pods, {what}at most"
            yield Problem(field=f"{name}.max", code="too_large", message=message)
