"""A cluster and settings as a hub would put them together: the same reading, counting and catalogue, without a hub."""

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
from gpuspawner.cli.values.chart_config import build_spawner_config, find_hub_account, get_configured_trait
from gpuspawner.cli.values.helm_values import (
    HelmValues,
    add_values_argument,
    load_values,
    merge_settings,
    require_sections,
)
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.hub.admission.admin_traits import parse_admin_tolerations
from gpuspawner.hub.config.offer import Offer, OfferFactory, ParsedSettings
from gpuspawner.kube.store import ClusterStore, StoreTiming

_FALLBACK_IMAGE = "quay.io/jupyterhub/k8s-singleuser-sample"
_SILENT = logging.getLogger(__name__)
"""What the store says in a hub's log, a command says in its own words."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What was seen in one moment.

    :param offer: what may be asked for, and the inventory it was made from.
    :param tolerations: what every server tolerates besides the GPU types' own.
    """

    cluster: ClusterConnection
    values: HelmValues
    settings: ParsedSettings
    offer: Offer
    tolerations: tuple[Toleration, ...]

    @property
    def catalogue(self) -> Catalog:
        """What may be asked for."""
        return self.offer.catalogue

    @property
    def inventory(self) -> Inventory:
        """What the cluster has."""
        return self.offer.inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterViewer:
    """A connection that keeps reading the cluster, as a hub does.

    :param config: of spawners.
    """

    cluster: ClusterConnection
    values: HelmValues
    settings: ParsedSettings
    config: Config
    store: ClusterStore
    offers: OfferFactory = field(repr=False)

    async def read_view(self) -> ClusterView:
        """Return what there is now, from memory; only the first look waits for the cluster to be read."""
        image = get_configured_trait(self.config, "image")
        return ClusterView(
            cluster=self.cluster,
            values=self.values,
            settings=self.settings,
            offer=await self.offers.make_offer(self.settings, self.store, image=image or _FALLBACK_IMAGE),
            tolerations=parse_admin_tolerations(get_configured_trait(self.config, "tolerations")),
        )


def add_view_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all arguments that a look needs: which values, which cluster, and as whom."""
    add_values_argument(parser)
    add_cluster_arguments(parser)
    add_account_arguments(parser)


@asynccontextmanager
async def open_cluster_viewer(arguments: argparse.Namespace) -> AsyncIterator[ClusterViewer]:
    """Read settings, connect to the cluster and keep reading it.

    :raises SettingsError: the settings are wrong, with one problem for each path.
    :raises ClusterError: there is no cluster to connect to; that it cannot be read is part of the inventory.
    """
    values = load_values(arguments.values)
    require_sections(values)
    offers = OfferFactory()
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


async def view_cluster_once(arguments: argparse.Namespace) -> ClusterView:
    """Look once. What is returned stays as it was; the connection is closed.

    :raises SettingsError: as for :func:`open_cluster_viewer`, and so is ClusterError.
    """
    async with open_cluster_viewer(arguments) as onlooker:
        return await onlooker.read_view()
