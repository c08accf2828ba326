"""Builds the offer: what users can choose now, from the admin's settings and the cluster's state.

Parsed settings, the cluster's state and catalogs are cached for all spawners of the hub until their sources change.
"""

from __future__ import annotations

import asyncio
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
from gpuspawner.core.form.views import FormCache
from gpuspawner.core.policy.usage import RemainingQuota
from gpuspawner.core.progress.model import QueuePlace
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.kube.resources.queue_positions import QueuePositions
from gpuspawner.kube.resources.resource_quotas import QUOTA_CACHE_S, QuotasAPI, ResourceQuotas
from gpuspawner.kube.resources.volume_topology import VolumesAPI, VolumeTopology
from gpuspawner.kube.store import ClusterStore, CoreAPI
from gpuspawner.settings import Settings

_MAX_SETTINGS = 32
"""Maximum number of complete sets of settings in a cache; JupyterHub's group overrides may give users other sets."""


class ClusterAPI(CoreAPI, VolumesAPI, QuotasAPI, Protocol):
    """The methods of ``kubernetes_asyncio.client.CoreV1Api`` that offers need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The choices that the hub offers, and the inventory they were built from.

    :param catalog: the choices.
    :param inventory: state of the cluster.
    :param uncounted: slugs of GPU types without ``max_count`` in the settings; the maximum is the most on one node.
    :param volume_topology: finds the nodes on which a pod's volume claims can be mounted; None without a cluster.
    :param quotas: reads what a namespace's ResourceQuotas leave; None without a cluster.
    :param queues: reads pods' positions in Kueue's queues; None without a cluster.
    :param answer_by: seconds of the event loop's clock until which the hub waits for further answers about the cluster;
        None for no limit but that of each request.
    :param cache: caches parts of the form between requests; None disables caching.
    """

    catalog: Catalog
    inventory: Inventory
    uncounted: frozenset[str] = frozenset()
    volume_topology: VolumeTopology | None = None
    quotas: ResourceQuotas | None = None
    queues: QueuePositions | None = None
    answer_by: float | None = None
    cache: FormCache | None = None

    async def add_volume_topology(self, manifest: Mapping[str, Any], *, is_created: bool = False) -> Pod | None:
        """Decode a manifest and return the pod, constrained to the nodes on which its volumes can be mounted.

        :param manifest: JSON of the pod, as sent to the API server.
        :param is_created: the pod's claims exist by now; see :meth:`VolumeTopology.resolve_claims`.
        """
        pod = decode.decode_pod(manifest)
        if pod is not None and is_gated_on_creation(manifest):
            # Kueue will add a scheduling gate to this pod, and may add node constraints when it removes the gate.
            pod = replace(pod, constraints=replace(pod.constraints, is_gated=True))
        if pod is None or self.volume_topology is None:
            return pod
        constraints = await self.volume_topology.resolve_claims(
            pod.constraints, namespace=pod.namespace, is_created=is_created, wait_s=self.wait_s
        )
        return replace(pod, constraints=constraints)

    async def find_queue_place(self, pod: Mapping[str, Any]) -> QueuePlace | None:
        """Return a pod's place in its Kueue queue, or None if the pod is not queued.

        :param pod: JSON of the pod, as the API server sends it.
        """
        queue = read_queue_name(pod) if is_gated(pod) else ""
        if not queue or self.queues is None:
            return None
        return QueuePlace(position=await self.queues.find_position(pod, queue=queue, wait_s=self.wait_s), queue=queue)

    async def read_quota(self, namespace: str, *, max_age_s: float = QUOTA_CACHE_S) -> RemainingQuota | None:
        """Return what a namespace's quotas leave, or None if there are none or the hub cannot read them in time.

        :param namespace: of the pods.
        :param max_age_s: greatest age in seconds of a cached result.
        """
        if self.quotas is None:
            return None
        return await self.quotas.read_remaining(namespace, max_age_s=max_age_s, wait_s=self.wait_s)

    @property
    def wait_s(self) -> float | None:
        """Seconds that the hub still waits for answers about the cluster, None for no limit."""
        return None if self.answer_by is None else max(0.0, self.answer_by - asyncio.get_running_loop().time())

    @property
    def unread_reason(self) -> str:
        """Sentence for users that says why the hub could not read the nodes; empty if it could."""
        return self.inventory.reason if self.inventory.nodes is None else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedSettings:
    """Validated settings and the values built from them.

    :param is_empty: whether the admin has set nothing.
    :param configured: the settings in the form that ``gpuspawner.core`` uses.
    :param table: the built-in table of GPU models, with the admin's changes.
    """

    is_empty: bool
    configured: ConfiguredCatalog
    table: AcceleratorTable


class OfferFactory:
    """Makes offers; owns the only cluster store of this process, which caches nodes and pods.

    An API client belongs to one event loop, so each client gets a new store. Only tests use several clients. The
    store's tasks end with the loop.
    """

    def __init__(self) -> None:
        self._api: ClusterAPI | None = None
        self._store: ClusterStore | None = None
        self._volume_topology: VolumeTopology | None = None
        self._quotas: ResourceQuotas | None = None
        self._queues: QueuePositions | None = None
        self._cache = FormCache()
        self._settings: OrderedDict[bytes | str, ParsedSettings] = OrderedDict()
        self._nodes: tuple[Node, ...] | None = None
        self._catalogs: dict[tuple[ParsedSettings, str], Catalog] = {}

    def parse(self, raw: Mapping[str, Any]) -> ParsedSettings:
        """Return validated settings; equal settings are parsed once.

        :param raw: the settings by key, as loaded from YAML.
        :raises SettingsError: the settings are invalid; the error has one problem for each wrong key.
        """
        key = make_settings_key(raw)
        if key not in self._settings:
            with use_language(ENGLISH):  # in English, because the admin reads the errors in the log
                settings = Settings.parse(raw)
            self._settings[key] = ParsedSettings(
                is_empty=settings.is_empty, configured=settings.build_configured(), table=settings.build_table()
            )
        self._settings.move_to_end(key)
        if len(self._settings) > _MAX_SETTINGS:
            self._settings.popitem(last=False)
        return self._settings[key]

    def get_store(self, api: ClusterAPI, **options: Any) -> ClusterStore:
        """Return the store for an API client.

        :param api: the hub's ``CoreV1Api``.
        :param options: options for :class:`ClusterStore`, used only when this call creates the store.
        """
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
        """The store, or None before the first call of :meth:`get_store`."""
        return self._store

    async def stop(self) -> None:
        """Stop watching the cluster, if a store was created."""
        if self._store is not None:
            await self._store.stop()

    async def make_offer(
        self, settings: ParsedSettings, store: ClusterStore, *, image: str, answer_by: float | None = None
    ) -> Offer:
        """Return the current offer.

        :param settings: the user's settings.
        :param store: the store that :meth:`get_store` returned.
        :param image: image reference that is offered if the settings contain no image.
        :param answer_by: as in :class:`Offer`.
        """
        inventory = await store.read_inventory()
        if inventory.nodes is not self._nodes or len(self._catalogs) > _MAX_SETTINGS:
            self._nodes, self._catalogs = inventory.nodes, {}
        key = (settings, image)
        if key not in self._catalogs:
            self._catalogs[key] = assemble_catalog(
                settings.configured, inventory, table=settings.table, fallback_image=image
            )
        return Offer(
            catalog=self._catalogs[key],
            inventory=inventory,
            uncounted=settings.configured.uncounted,
            volume_topology=self._volume_topology,
            quotas=self._quotas,
            queues=self._queues,
            answer_by=answer_by,
            cache=self._cache,
        )


def make_settings_key(raw: Mapping[str, Any]) -> bytes | str:
    """Return a cache key that is equal only for equal settings; it treats True and 1 as different.

    :param raw: the settings by key, as loaded from YAML.
    """
    values: Any = raw
    try:
        # marshal takes a quarter of repr's time. Its versions above 2 may write equal values differently.
        return marshal.dumps(values, 2)
    except ValueError:
        return repr(raw)  # marshal raises ValueError for objects that are not of built-in types
