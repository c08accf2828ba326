"""Warns about settings that contradict a cluster: GPU types without nodes, untolerated taints, excessive limits.

``gpuspawner check`` uses this module only with the option --cluster.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable, Iterator
from typing import cast

from gpuspawner.cli.check.type_warnings import find_undeclared_images
from gpuspawner.cli.cluster.cluster_view import read_configured_resources
from gpuspawner.cli.cluster.connection import FIRST_READ_TIMEOUT_S, ClusterError, connect_to_cluster
from gpuspawner.cli.common.findings import Finding, Severity
from gpuspawner.cli.values.chart_config import build_spawner_config, make_settings_parser
from gpuspawner.cli.values.helm_values import HelmValues, merge_settings
from gpuspawner.cli.values.trait_sources import (
    TraitSource,
    find_trait_source,
    list_pod_tolerations,
    locate_problems,
    make_finding,
)
from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.nodes_by_type import count_units, may_have_units
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.errors import Problem
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.core.warnings.nodes import AdminWarning, find_node_warnings
from gpuspawner.core.warnings.presets_and_policy import (
    OWN_GPUS_TRAIT,
    find_dropped_gpu_warnings,
    find_policy_warnings,
    find_preset_warnings,
)
from gpuspawner.core.warnings.wording import MAX_WARNINGS, build_warnings_view
from gpuspawner.hub.config.offer import Offer, OfferFactory, ParsedSettings
from gpuspawner.kube.client.api_requests import CoreAPI
from gpuspawner.kube.store import StoreTiming

_SILENT = logging.getLogger(__name__)
"""Logger that discards the messages of ``ClusterStore``, because the command reports the store's errors itself."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_CONTROL_PLANE_TAINT_PREFIX = "node-role.kubernetes.io/"


async def find_cluster_warnings(
    values: HelmValues, arguments: argparse.Namespace, *, timeout_s: float = FIRST_READ_TIMEOUT_S
) -> list[Finding]:
    """Read the cluster that the arguments name and return warnings about the settings.

    :param values: the merged values files, without errors.
    :param timeout_s: seconds that the first read of nodes and pods may take.
    :raises ClusterError: the cluster cannot be read.
    """
    async with connect_to_cluster(arguments) as cluster:
        offers, api = OfferFactory(make_settings_parser(values.chart)), cast("CoreAPI", cluster.core)
        settings = offers.parse(merge_settings(values))
        store = offers.get_store(api, pace=StoreTiming(first_sync_timeout_s=timeout_s), log=_SILENT)
        try:
            own = read_configured_resources(build_spawner_config(values.chart, namespace=""))
            offer = await offers.make_offer(settings, store, image="", own=own)
        finally:
            await offers.stop()
    if offer.unread_reason:
        message = f"{offer.unread_reason} ({cluster.client.configuration.host})"
        raise ClusterError(Problem(field="cluster", code="unreadable", message=message))
    return list(compare_with_nodes(values, offer, settings=settings))


def list_worker_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that do not belong to the control plane."""
    return [node for node in nodes if not any(each.key.startswith(_CONTROL_PLANE_TAINT_PREFIX) for each in node.taints)]


def compare_with_nodes(values: HelmValues, offer: Offer, *, settings: ParsedSettings) -> Iterator[Finding]:
    """Yield warnings about settings that the cluster's nodes contradict."""
    nodes = offer.inventory.nodes or ()
    configured = settings.configured
    flags = (
        *find_preset_warnings(configured.presets, offer.catalog),
        *find_policy_warnings(configured.policy, offer.catalog),
        *find_node_warnings(nodes, offer.catalog, table=settings.table, tolerations=list_pod_tolerations(values)),
    )
    problems = [problem for flag in flags[:MAX_WARNINGS] for problem in _make_flag_problems(flag)]
    for slug, gpu in configured.gpus.items():
        problems += _check_type(slug, gpu, nodes=nodes, may_grow=bool(offer.inventory.scalable_pools))
    problems += _check_limits(settings, nodes)
    problems += find_undeclared_images(configured.images, offer.catalog.gpus)
    yield from locate_problems(problems, values, severity=Severity.WARNING)
    source = find_trait_source(values, OWN_GPUS_TRAIT) or TraitSource((), {})
    for flag in find_dropped_gpu_warnings(offer.catalog):
        if flag.settings != (OWN_GPUS_TRAIT,):
            continue  # skip traits that describe containers: chart_warnings.find_dropped_gpus reports their GPUs
        path = (*source.path, flag.resource)
        yield make_finding(values, path, severity=Severity.WARNING, code=flag.kind.value, message=flag.message)


def _make_flag_problems(flag: AdminWarning) -> Iterator[Problem]:
    view = build_warnings_view([flag])
    subject, message = view.flags[0] if view is not None else ("", flag.message)
    if flag.nodes:
        yield Problem(field="gpus", code=flag.kind.value, message=f"{subject}: {message}")
    for slug in flag.presets:
        yield Problem(field=f"presets.{slug}", code=flag.kind.value, message=message)
    for path in flag.settings:
        yield Problem(field=path, code=flag.kind.value, message=message)


def _check_type(slug: str, gpu: GPUType, *, nodes: Iterable[Node], may_grow: bool) -> Iterator[Problem]:
    labelled = [node for node in nodes if gpu.matches_labels(node.labels)]
    own = [node for node in labelled if may_have_units(node, gpu.resource)]
    if own:
        most = max(count_units(node, gpu.resource) for node in own)
        added = gpu.scale_up.gpus_per_node if gpu.scale_up is not None else 0
        if max(most, added) < gpu.max_count and not any(gpu.resource in node.uncounted for node in own):
            message = f"is more than any node has: {gpu.max_count} in one server, and {max(most, added)} on the largest"
            yield Problem(field=f"gpus.{slug}.max_count", code="too_large", message=message)
    elif gpu.scale_up is None and not may_grow:
        lacking = f"{len(labelled)} have the labels, none of them {gpu.resource}" if labelled else "none has the labels"
        message = f"matches no node ({lacking}), and there is no scale_up that says one may come"
        message += (
            ": a server with it waits for a node that something has to add; if nothing does, set new_nodes: none"
            if gpu.new_nodes
            else ", and new_nodes is none: no server gets it"
        )
        yield Problem(field=f"gpus.{slug}", code="matches_nothing", message=message)


def _check_limits(settings: ParsedSettings, nodes: Iterable[Node]) -> Iterator[Problem]:
    usable = list_worker_nodes(nodes)
    for name, bounds, show in (
        ("cpu", settings.configured.cpu, format_cpu),
        ("memory", settings.configured.memory, format_memory),
    ):
        most = max((node.allocatable.get(name, 0) for node in usable), default=0)
        if bounds is not None and usable and bounds.max * bounds.guarantee > most:
            what = "of it " if bounds.guarantee == 1 else f"({bounds.guarantee:g} of it is requested) "
            message = f"is more than any node can hold: the largest has {show(most)} for pods, {what}at most"
            yield Problem(field=f"{name}.max", code="too_large", message=message)
