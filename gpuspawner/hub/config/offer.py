"""What one spawner can offer right now: the admin's settings and the cluster put together.

Parsing settings, watching the cluster and assembling the catalogue are done once for all spawners of the hub process,
as long as nothing they depend on has changed.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.kueue import is_gated, is_gated_on_creation, read_queue_name
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.progress.model import QueuePlace
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.kube.resources.queue_positions import QueuePositions
from gpuspawner.kube.resources.resource_quotas import QuotasAPI, ResourceQuotas
from gpuspawner.kube.resources.volume_topology import VolumesAPI, VolumeTopology
from gpuspawner.kube.store import ClusterStore, CoreAPI
from gpuspawner.settings import Settings

_MAX_SETTINGS = 32
"""Different settings kept parsed; group overrides may give some users others than the rest."""


class ClusterAPI(CoreAPI, VolumesAPI, QuotasAPI, Protocol):
    """What is used of ``kubernetes_asyncio.client.CoreV1Api``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What may be asked for, and the inventory it was made from.

    :param uncounted: slugs of GPU types whose ``max_count`` comes from the cluster.
    :param volume_topology: finds the volumes behind a pod's claims; None where nobody can be asked, as for the two
        others.
    :param quotas: finds what the ResourceQuotas of a namespace leave.
    :param queues: finds the places in Kueue's queues.
    """

    catalogue: Catalog
    inventory: Inventory
    uncounted: frozenset[str] = frozenset()
    volume_topology: VolumeTopology | None = None
    quotas: ResourceQuotas | None = None
    queues: QueuePositions | None = None

    async def add_volume_topology(self, manifest: Mapping[str, Any]) -> Pod | None:
        """Return the pod of a manifest, with the nodes that its volumes can be used on among its demands."""
        pod = decode.decode_pod(manifest)
        if pod is not None and is_gated_on_creation(manifest):
            # Kueue gates it when it is created, and may say more of where it goes when it takes the gate away.
            pod = replace(pod, constraints=replace(pod.constraints, is_gated=True))
        if pod is None or self.volume_topology is None:
            return pod
        return replace(
            pod, constraints=await self.volume_topology.resolve_claims(pod.constraints, namespace=pod.namespace)
        )

    async def find_queue_place(self, pod: Mapping[str, Any]) -> QueuePlace | None:
        """Return where a pod waits in a queue of Kueue, None where it waits in none.

        :param pod: as the API server sends it.
        """
        queue = read_queue_name(pod) if is_gated(pod) else ""
        if not queue or self.queues is None:
            return None
        return QueuePlace(position=await self.queues.find_position(pod, queue=queue), queue=queue)

    @property
    def unread_reason(self) -> str:
        """Why the cluster's nodes could not be read, a sentence; empty when they were."""
        return self.inventory.reason if self.inventory.nodes is None else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedSettings:
    """Settings that were checked, with everything that is made of them.

    :param is_empty: nothing is configured at all.
    """

    is_empty: bool
    configured: ConfiguredCatalog
    table: AcceleratorTable


class OfferFactory:
    """Makes offers from the one store of this process.

    An event loop has its own API client, so another client means another loop (in tests) and another store. When the
    hub ends it cancels all tasks of its loop, the store's among them.
    """

    def __init__(self) -> None:
        self._api: ClusterAPI | None = None
        self._store: ClusterStore | None = None
        self._volume_topology: VolumeTopology | None = None
        self._quotas: ResourceQuotas | None = None
        self._queues: QueuePositions | None = None
        self._settings: OrderedDict[bytes | str, ParsedSettings] = OrderedDict()
        self._nodes: tuple[Node, ...] | None = None
        self._catalogues: dict[tuple[ParsedSettings, str], Catalog] = {}

    def parse(self, raw: Mapping[str, Any]) -> ParsedSettings:
        """Return checked settings; what is written the same is parsed once.

        :raises SettingsError: with one problem for each path that is wrong.
        """
        key = make_settings_key(raw)
        if key not in self._settings:
            with use_language(ENGLISH):  # what is wrong is for the admin, whoever asked
                settings = Settings.parse(raw)
            self._settings[key] = ParsedSettings(
                is_empty=settings.is_empty, configured=settings.build_configured(), table=settings.build_table()
            )
        self._settings.move_to_end(key)
        if len(self._settings) > _MAX_SETTINGS:
            self._settings.popitem(last=False)
        return self._settings[key]

    def get_store(self, api: ClusterAPI, **options: Any) -> ClusterStore:
        """Return the store for an API client; ``options`` as for :class:`ClusterStore`, of whoever asks first."""
        if self._store is None or self._api is not api:
            self._api, self._store = api, ClusterStore(api, **options)
            self._volume_topology, self._quotas, self._queues = (
                VolumeTopology(api),
                ResourceQuotas(api),
                QueuePositions(api.api_client),
            )
        return self._store

    @property
    def known_store(self) -> ClusterStore | None:
        """The store there is, None before anybody asked for it."""
        return self._store

    async def stop(self) -> None:
        """End the watches of the cluster; nothing happens where there are none."""
        if self._store is not None:
            await self._store.stop()

    async def make_offer(self, settings: ParsedSettings, store: ClusterStore, *, image: str) -> Offer:
        """Return what can be offered now.

        :param image: reference used when the settings name no image.
        """
        inventory = await store.read_inventory()
        if inventory.nodes is not self._nodes or len(self._catalogues) > _MAX_SETTINGS:
            self._nodes, self._catalogues = inventory.nodes, {}
        key = (settings, image)
        if key not in self._catalogues:
            self._catalogues[key] = assemble_catalog(
                settings.configured, inventory, table=settings.table, fallback_image=image
            )
        return Offer(
            catalogue=self._catalogues[key],
            inventory=inventory,
            uncounted=settings.configured.uncounted,
            volume_topology=self._volume_topology,
            quotas=self._quotas,
            queues=self._queues,
        )


def make_settings_key(raw: Mapping[str, Any]) -> bytes | str:
    """Return settings as something that tells them from all others, True from 1 as well; made for each form anew."""
    values: Any = raw
    try:
        # In a quarter of the time of a text. Later versions of the format write the same differently, by how often it
        # is in use.
        return marshal.dumps(values, 2)
    except ValueError:
        return repr(raw)  # something of a class of its own is among them
