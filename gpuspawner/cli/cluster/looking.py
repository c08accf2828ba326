"""A cluster and settings as a hub would put them together: the same reading, counting and catalogue, without a hub."""

from __future__ import annotations

import argparse
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from traitlets.config import Config

from gpuspawner.cli.cluster.cluster import PATIENCE_S, Cluster, add_account, add_cluster, connected
from gpuspawner.cli.values.chart import configured, hub_account, spawner_config
from gpuspawner.cli.values.values import Values, add_values, load, merged_settings, require_sections
from gpuspawner.core.catalog.catalogue import Catalogue
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.cluster.occupancy import Inventory
from gpuspawner.hub.admission.room import tolerations
from gpuspawner.hub.config.offers import Offer, Offers, ParsedSettings
from gpuspawner.kube.store import ClusterStore, Pace

_FALLBACK_IMAGE = "quay.io/jupyterhub/k8s-singleuser-sample"
_SILENT = logging.getLogger(__name__)
"""What the store says in a hub's log, a command says in its own words."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was seen in one moment.

    :param offer: what may be asked for, and the inventory it was made from.
    :param tolerations: what every server tolerates besides the GPU types' own.
    """

    cluster: Cluster
    values: Values
    settings: ParsedSettings
    offer: Offer
    tolerations: tuple[Toleration, ...]

    @property
    def catalogue(self) -> Catalogue:
        """What may be asked for."""
        return self.offer.catalogue

    @property
    def inventory(self) -> Inventory:
        """What the cluster has."""
        return self.offer.inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Onlooker:
    """A connection that keeps reading the cluster, as a hub does.

    :param config: of spawners.
    """

    cluster: Cluster
    values: Values
    settings: ParsedSettings
    config: Config
    store: ClusterStore
    offers: Offers = field(repr=False)

    async def look(self) -> Looked:
        """Return what there is now, from memory; only the first look waits for the cluster to be read."""
        image = configured(self.config, "image")
        return Looked(
            cluster=self.cluster,
            values=self.values,
            settings=self.settings,
            offer=await self.offers.make(self.settings, self.store, image=image or _FALLBACK_IMAGE),
            tolerations=tolerations(configured(self.config, "tolerations")),
        )


def add_looking(parser: argparse.ArgumentParser) -> None:
    """Add all arguments that a look needs: which values, which cluster, and as whom."""
    add_values(parser)
    add_cluster(parser)
    add_account(parser)


@asynccontextmanager
async def looking(arguments: argparse.Namespace) -> AsyncIterator[Onlooker]:
    """Read settings, connect to the cluster and keep reading it.

    :raises SettingsError: the settings are wrong, with one problem for each path.
    :raises ClusterError: there is no cluster to connect to; that it cannot be read is part of the inventory.
    """
    values = load(arguments.values)
    require_sections(values)
    offers = Offers()
    settings = offers.parse({name: value for name, value in merged_settings(values).items() if value is not None})
    async with connected(arguments, hub_account=hub_account(values.chart)) as cluster:
        api: Any = cluster.core
        store = offers.store(api, pace=Pace(first_sync_timeout_s=PATIENCE_S), log=_SILENT)
        config = spawner_config(values.chart, namespace=cluster.namespace)
        try:
            yield Onlooker(cluster=cluster, values=values, settings=settings, config=config, store=store, offers=offers)
        finally:
            await offers.stop()


async def look(arguments: argparse.Namespace) -> Looked:
    """Look once. What is returned stays as it was; the connection is closed.

    :raises SettingsError: as for :func:`looking`, and so is ClusterError.
    """
    async with looking(arguments) as onlooker:
        return await onlooker.look()
