"""Computes the catalog and the inventory that a hub with given settings would have.

The catalog contains the GPU types and images that users can choose; the inventory contains the cluster's nodes, pods
and autoscalers. The module runs the hub's code, but needs no hub.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from traitlets.config import Config

from gpuspawner.cli.cluster.connection import (
    FIRST_READ_TIMEOUT_S,
    ClusterConnection,
    add_account_arguments,
    add_cluster_arguments,
    connect_to_cluster,
)
from gpuspawner.cli.values.chart_config import (
    build_spawner_config,
    find_hub_account,
    get_configured_trait,
    make_settings_parser,
)
from gpuspawner.cli.values.helm_values import (
    HelmValues,
    add_values_argument,
    load_values,
    merge_settings,
    require_sections,
)
from gpuspawner.core.catalog.model import Catalog, OwnResources
from gpuspawner.core.cluster.decode import find_preempting_priority
from gpuspawner.core.cluster.dra import ResourceSlice
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.hub.config.offer import Offer, OfferFactory
from gpuspawner.hub.pod.admin_values import OWN_RESOURCE_TRAITS, parse_admin_tolerations, read_own_resources
from gpuspawner.kube.store import ClusterStore, StoreTiming
from gpuspawner.settings import Settings

FALLBACK_IMAGE = "quay.io/jupyterhub/k8s-singleuser-sample"
"""Default image of servers in zero-to-jupyterhub."""
_SILENT = logging.getLogger(__name__)
"""Logger that discards the messages of ``ClusterStore``, because the commands report the store's errors themselves."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The state of a cluster at one moment, and the catalog of GPU types and images that users could choose then.

    :param cluster: the connection to the cluster.
    :param values: the merged values files.
    :param settings: the parsed settings of the values.
    :param offer: the catalog, and the inventory from which the hub's code built it.
    :param tolerations: the tolerations of every server, without those that a GPU type adds.
    :param priority: priority of the servers' pods if these preempt other pods; None if they preempt none, or if their
        priority is unknown.
    :param slices: ResourceSlices of DRA drivers, if the command reads them.
    """

    cluster: ClusterConnection
    values: HelmValues
    settings: Settings
    offer: Offer
    tolerations: tuple[Toleration, ...]
    priority: int | None = None
    slices: tuple[ResourceSlice, ...] = ()

    @property
    def catalog(self) -> Catalog:
        """The catalog of GPU types and images that users can choose from."""
        return self.offer.catalog

    @property
    def inventory(self) -> Inventory:
        """Nodes, pods and autoscalers of the cluster."""
        return self.offer.inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterViewer:
    """A connection that watches the cluster continuously, as the hub does.

    :param cluster: the connection to the cluster.
    :param values: the merged values files.
    :param settings: the parsed settings of the values.
    :param config: configuration of the hub's spawners.
    :param store: watches nodes and pods.
    :param offers: builds the catalog.
    """

    cluster: ClusterConnection
    values: HelmValues
    settings: Settings
    config: Config
    store: ClusterStore
    offers: OfferFactory = field(repr=False)

    async def read_view(self) -> ClusterView:
        """Return the cluster's current state from memory; only the first call waits for the API server."""
        image = get_configured_trait(self.config, "image")
        own = read_configured_resources(self.config)
        offer = await self.offers.make_offer(self.settings, self.store, image=image or FALLBACK_IMAGE, own=own)
        spec = {"priorityClassName": get_configured_trait(self.config, "priority_class_name")}
        return ClusterView(
            cluster=self.cluster,
            values=self.values,
            settings=self.settings,
            offer=offer,
            tolerations=parse_admin_tolerations(get_configured_trait(self.config, "tolerations")),
            priority=find_preempting_priority(spec, classes=offer.inventory.priority_classes),
        )


def read_configured_resources(config: Config) -> OwnResources:
    """Return CPU, memory, GPUs and node selector that KubeSpawner's configured traits give every server."""
    return read_own_resources({trait: get_configured_trait(config, trait) for trait in OWN_RESOURCE_TRAITS})


def add_view_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :func:`open_cluster_viewer` reads: values files, cluster and ServiceAccount."""
    add_values_argument(parser)
    add_cluster_arguments(parser)
    add_account_arguments(parser)


@asynccontextmanager
async def open_cluster_viewer(arguments: argparse.Namespace) -> AsyncIterator[ClusterViewer]:
    """Read the values files, connect to the cluster and watch it until the context ends.

    :param arguments: parsed arguments of :func:`add_view_arguments`; those that name a ServiceAccount may be missing.
    :raises SettingsError: settings are invalid; the error has one problem for each invalid setting.
    :raises ClusterError: the connection fails. If the connection works but nodes or pods cannot be read, the function
        raises no error; the inventory then contains the reason.
    """
    values = load_values(arguments.values)
    require_sections(values)
    offers = OfferFactory(make_settings_parser(values.chart))
    settings = offers.parse({name: value for name, value in merge_settings(values).items() if value is not None})
    async with connect_to_cluster(arguments, hub_account=find_hub_account(values.chart)) as cluster:
        api: Any = cluster.core
        store = offers.get_store(api, pace=StoreTiming(first_sync_timeout_s=FIRST_READ_TIMEOUT_S), log=_SILENT)
        config = build_spawner_config(values.chart, namespace=cluster.namespace)
        try:
            yield ClusterViewer(
                cluster=cluster, values=values, settings=settings, config=config, store=store, offers=offers
            )
        finally:
            await offers.stop()
