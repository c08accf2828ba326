"""Builds the offer: what users can choose now, from the admin's settings and the cluster's state.

Parsed settings, the cluster's state and catalogs are cached for all spawners of the hub until their sources change.
"""

from __future__ import annotations

import asyncio
import marshal
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.core.catalog.kueue import PRIORITY_LABEL, QueueReason
from gpuspawner.core.catalog.model import NO_RESOURCES, Catalog, GPUType, OwnResources
from gpuspawner.core.catalog.queue import QueueState
from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.form.cache import FormCache
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.policy.usage import RemainingQuota
from gpuspawner.core.progress.model import QueuePlace
from gpuspawner.core.progress.pod_status import has_other_gates, is_gated, is_gated_on_creation, read_queue_name
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.core.verdict.verdict import Verdict, predict_verdict
from gpuspawner.kube.client.api_requests import CoreAPI
from gpuspawner.kube.resources.autoscaler_status import NodeGrowthReader
from gpuspawner.kube.resources.queue_places import QueuePlaces
from gpuspawner.kube.resources.resource_quotas import QUOTA_CACHE_S, LimitRanges, ResourceQuotas
from gpuspawner.kube.resources.volume_topology import VolumeTopology
from gpuspawner.kube.store import ClusterStore
from gpuspawner.settings import Settings

_MAX_SETTINGS = 32
"""Size limit of the cache of parsed settings, and of each cluster's cache of catalogs.

The hub caches several, because ``group_overrides`` may give groups of users different settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The choices that the hub offers, and the inventory they were built from.

    :param catalog: the choices.
    :param inventory: the cluster's nodes and pods, with the age of these data.
    :param uncounted: slugs of GPU types that the settings describe without ``max_count``. Their limit is the number of
        GPUs on one node, so it is unknown if the hub cannot read the nodes.
    :param volume_topology: finds the nodes on which a pod's volume claims can be mounted; None without a cluster.
    :param quotas: reads the resources that a namespace's ResourceQuotas still allow; None without a cluster.
    :param limit_ranges: reads the LimitRanges of namespaces; None without a cluster.
    :param queues: reads Kueue's queues and the positions of pods in them; None without a cluster.
    :param autoscaler: reads what the cluster-autoscaler says about its node groups; None without a cluster.
    :param answer_by: time of the event loop's clock, in seconds, at which the hub stops waiting for the API server;
        None = only the timeout of each request limits the wait.
    :param cache: keeps parts of the form between requests.
    """

    catalog: Catalog
    inventory: Inventory
    uncounted: frozenset[str] = frozenset()
    volume_topology: VolumeTopology | None = None
    quotas: ResourceQuotas | None = None
    limit_ranges: LimitRanges | None = None
    queues: QueuePlaces | None = None
    autoscaler: NodeGrowthReader | None = None
    answer_by: float | None = None
    cache: FormCache = field(default_factory=FormCache)

    def predict_verdict(
        self,
        pod: Pod,
        *,
        gpu: GPUType | None,
        queue: QueueState | None = None,
        start_timeout_s: float | None = None,
    ) -> Verdict:
        """Return a prediction of when a pod will start.

        :param pod: the complete pod, as :meth:`add_volume_topology` returns it.
        :param gpu: the server's GPU type; None for a server without a GPU.
        :param queue: the result of :meth:`read_queue`, for a pod that does not exist yet.
        :param start_timeout_s: seconds that the server waits at most; None if the caller does not show this time.
        """
        return predict_verdict(
            pod,
            self.inventory,
            gpu=gpu,
            queue=queue,
            new_nodes=self._may_add_nodes(pod) if gpu is None else gpu.new_nodes,
            start_timeout_s=start_timeout_s,
        )

    def _may_add_nodes(self, pod: Pod) -> bool:
        # The pod may request GPUs although its type is unknown: after a restart, the hub may not know the type, and a
        # preset's `kubespawner_override` may request GPUs without a type.
        gpus = (*self.catalog.gpus.values(), *self.catalog.hidden)
        return self.catalog.new_nodes or any(gpu.new_nodes for gpu in gpus if gpu.resource in pod.requests)

    async def add_node_growth(self, verdict: Verdict, *, gpu: GPUType | None) -> Verdict:
        """Return a verdict with what the cluster-autoscaler says about adding nodes, if the verdict depends on that.

        :param verdict: a result of :meth:`predict_verdict`.
        :param gpu: the server's GPU type; None for a server without a GPU.
        """
        may_add = (self.catalog if gpu is None else gpu).new_nodes
        if self.autoscaler is None or not verdict.may_add_node or not may_add:
            return verdict
        return replace(verdict, growth=await self.autoscaler.read_growth(wait_s=self.wait_s))

    async def add_volume_topology(
        self, manifest: Mapping[str, Any], *, new_claims: Mapping[str, str | None] | None = None
    ) -> Pod | None:
        """Decode a manifest and return the pod, limited to nodes that can mount and attach its volumes.

        The result is None for a finished pod. If the pod does not exist yet, the result also has what Kubernetes will
        add: the priority of its PriorityClass, and the values of its RuntimeClass and the namespace's LimitRanges.

        :param manifest: JSON of the pod, as sent to the API server.
        :param new_claims: the claims that the hub will create unless they exist: name of a claim → name of its
            StorageClass, or None for the default class. Leave the parameter out if the hub has already created the
            claims; see :meth:`VolumeTopology.resolve_claims`.
        """
        spec, metadata = as_dict(manifest.get("spec")), as_dict(manifest.get("metadata"))
        is_new = not metadata.get("uid")
        if is_new:
            limit_ranges = await self.read_limit_ranges(as_text(metadata.get("namespace")))
            manifest = {**manifest, "spec": self.complete_spec(spec, limit_ranges)}
        pod = decode.decode_pod(manifest)
        if pod is not None and is_new:
            pod = decode.apply_priority_class(pod, spec, classes=self.inventory.priority_classes)
        if pod is not None and is_gated_on_creation(manifest):
            # Treat the pod as gated already: Kueue adds a scheduling gate when the pod is created. The pod's final node
            # constraints are unknown, because Kueue may add some when it removes the gate.
            pod = replace(pod, constraints=replace(pod.constraints, is_gated=True))
        if pod is None or self.volume_topology is None:
            return pod
        constraints = await self.volume_topology.resolve_claims(
            pod.constraints, namespace=pod.namespace, new_claims=new_claims, wait_s=self.wait_s
        )
        located, occupancy = replace(pod, constraints=constraints), self.inventory.occupancy
        return located if occupancy is None else occupancy.volumes.add_needs(located, new_claims=new_claims or {})

    def complete_spec(self, spec: Mapping[str, object], limit_ranges: Iterable[object]) -> Mapping[str, object]:
        """Return a new pod's spec with what its RuntimeClass and LimitRanges add.

        If the hub has read the RuntimeClass, this method adds the class's node selector, tolerations and overhead, and
        removes ``runtimeClassName``. Otherwise ``runtimeClassName`` stays in the spec. :func:`.decode_pod` then treats
        the RuntimeClass as unknown.

        :param spec: ``spec`` of a v1 Pod that does not exist yet.
        :param limit_ranges: the result of :meth:`read_limit_ranges`.
        """
        return decode.add_limit_ranges(
            decode.add_runtime_class(spec, self.inventory.runtime_classes or ()), limit_ranges
        )

    async def read_limit_ranges(self, namespace: str) -> Sequence[object]:
        """Return the LimitRanges (v1) of a namespace as JSON; empty if the hub cannot read them in time."""
        if self.limit_ranges is None:
            return ()
        return await self.limit_ranges.read(namespace, wait_s=self.wait_s)

    async def find_queue_place(self, pod: Mapping[str, Any]) -> QueuePlace | None:
        """Return a pod's position in its Kueue queue and why Kueue does not admit it; None if the pod is not queued.

        :param pod: JSON of the pod, as the API server sends it.
        """
        queue = read_queue_name(pod) if is_gated(pod) else ""
        if not queue or self.queues is None:
            return None
        return await self.queues.find_place(pod, queue=queue, wait_s=self.wait_s)

    async def read_queue(
        self, manifest: Mapping[str, Any], pod: Pod, *, is_namespace_sure: bool = True
    ) -> QueueState | None:
        """Return the state of a new pod's Kueue queue, or None if the state is unknown or the pod has no queue.

        The result is also None if the pod has other scheduling gates than Kueue's.

        :param manifest: JSON of the pod, as sent to the API server or as a dry run returned it.
        :param is_namespace_sure: whether the pod's namespace certainly exists. If not, the LocalQueue may be created
            together with the namespace later, so the state of a missing LocalQueue is unknown.
        """
        name = read_queue_name(manifest)
        if not (name and pod.constraints.is_gated) or has_other_gates(manifest) or self.queues is None:
            return None
        spec, classes = as_dict(manifest.get("spec")), self.inventory.priority_classes
        state = await self.queues.read_state(
            pod.namespace,
            name,
            priority_class=pod.labels.get(PRIORITY_LABEL, ""),
            priority=decode.find_new_priority(spec, classes=classes),
            wait_s=self.wait_s,
        )
        is_missing = state.problem is QueueReason.NO_QUEUE
        return None if is_missing and not is_namespace_sure else state

    async def read_quota(self, namespace: str, *, max_age_s: float = QUOTA_CACHE_S) -> RemainingQuota | None:
        """Return the resources that a namespace's ResourceQuotas still allow.

        The result is None if the namespace has no ResourceQuotas, or if the hub cannot read them in time.

        :param max_age_s: greatest age in seconds of a cached result.
        """
        if self.quotas is None:
            return None
        return await self.quotas.read_remaining(namespace, max_age_s=max_age_s, wait_s=self.wait_s)

    @property
    def wait_s(self) -> float | None:
        """Seconds from now to ``answer_by``, at least 0; None for no limit."""
        return None if self.answer_by is None else max(0.0, self.answer_by - asyncio.get_running_loop().time())

    @property
    def unread_reason(self) -> str:
        """Sentence for users that says why the hub could not read the nodes; empty if it could."""
        return self.inventory.reason if self.inventory.nodes is None else ""


UNUSED_CLIENT_S = 600.0
"""Seconds without use of an API client, after which the hub stops watching the client's cluster.

The hub looks for unused clients whenever it uses a client."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Cluster:
    api: CoreAPI
    store: ClusterStore
    volume_topology: VolumeTopology
    quotas: ResourceQuotas
    limit_ranges: LimitRanges
    queues: QueuePlaces
    autoscaler: NodeGrowthReader
    used_at: float
    nodes: tuple[Node, ...] | None = None
    catalogs: dict[tuple[Settings, str, OwnResources], Catalog] = field(default_factory=dict)


class OfferFactory:
    """Makes :class:`Offer` objects; owns the stores of this process, which cache nodes and pods.

    Each API client has one store. Most hubs have one client; a site's subclass of the spawner may use several clusters,
    with a client for each. When the hub uses one store, it stops all others that it has not used for
    :data:`UNUSED_CLIENT_S`.

    :param validate: function that returns validated settings, or raises ``SettingsError``.
    :param clock: returns monotonic seconds.
    """

    def __init__(
        self, validate: Callable[[Mapping[str, object]], Settings], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._validate = validate
        self._clock = clock
        self._clusters: list[_Cluster] = []
        """The cluster of each API client; the most recently used is last."""
        self._stopping: set[asyncio.Future[None]] = set()
        self._cache = FormCache()
        self._settings: OrderedDict[bytes | str, Settings] = OrderedDict()

    def parse(self, raw: Mapping[str, Any]) -> Settings:
        """Return validated settings; equal settings are parsed once.

        :param raw: the settings by key, as loaded from YAML.
        :raises SettingsError: the settings are invalid; the error has one problem for each wrong key.
        """
        key = make_value_key(raw)
        if key not in self._settings:
            with use_language(ENGLISH):  # errors are in English, because the admin reads them in the log
                self._settings[key] = self._validate(raw)
        self._settings.move_to_end(key)
        if len(self._settings) > _MAX_SETTINGS:
            self._settings.popitem(last=False)
        return self._settings[key]

    def get_store(self, api: CoreAPI, **options: Any) -> ClusterStore:
        """Return the store that caches the nodes and pods of an API client's cluster.

        :param options: options for :class:`ClusterStore`, used only when this call creates the store.
        """
        now = self._clock()
        cluster = self._find_cluster(api)
        if cluster is None:
            cluster = _Cluster(
                api=api,
                store=ClusterStore(api, **options),
                volume_topology=VolumeTopology(api),
                quotas=ResourceQuotas(api),
                limit_ranges=LimitRanges(api),
                queues=QueuePlaces(api.api_client),
                autoscaler=NodeGrowthReader(api.api_client),
                used_at=now,
            )
        cluster.used_at = now
        self._clusters = [*(each for each in self._clusters if each is not cluster), cluster]
        self._stop_unused(now)
        return cluster.store

    def _stop_unused(self, now: float) -> None:
        for cluster in [each for each in self._clusters if now - each.used_at > UNUSED_CLIENT_S]:
            self._clusters.remove(cluster)
            self._stopping.add(stopping := asyncio.ensure_future(cluster.store.stop()))
            stopping.add_done_callback(self._stopping.discard)

    def find_store(self, api: CoreAPI) -> ClusterStore | None:
        """Return the store of an API client's cluster, or None if :meth:`get_store` has not created one.

        The result is also None if the hub has stopped the store because the client was unused.
        """
        cluster = self._find_cluster(api)
        return None if cluster is None else cluster.store

    def _find_cluster(self, api: CoreAPI) -> _Cluster | None:
        return next((each for each in self._clusters if each.api.api_client is api.api_client), None)

    @property
    def known_store(self) -> ClusterStore | None:
        """The store (cache of a cluster's nodes and pods) that the hub used last; None if the hub has no store yet."""
        return self._clusters[-1].store if self._clusters else None

    async def stop(self) -> None:
        """Stop all stores."""
        await asyncio.gather(*(each.store.stop() for each in self._clusters), *self._stopping)

    async def make_offer(
        self,
        settings: Settings,
        store: ClusterStore,
        *,
        image: str,
        own: OwnResources = NO_RESOURCES,
        answer_by: float | None = None,
    ) -> Offer:
        """Return what users can choose now, and the state of the cluster.

        :param store: the store that :meth:`get_store` returned.
        :param image: image reference that is offered if the settings contain no image.
        :param own: CPU, memory and GPUs in KubeSpawner's traits, which apply where gpuspawner's settings have no value.
        :param answer_by: time of the event loop's clock, in seconds, at which the hub stops waiting for the API server;
            None = only the timeout of each request limits the wait.
        """
        cluster = next(each for each in self._clusters if each.store is store)
        inventory = await store.read_inventory()
        if inventory.nodes is not cluster.nodes or len(cluster.catalogs) > _MAX_SETTINGS:
            cluster.nodes, cluster.catalogs = inventory.nodes, {}
        key = (settings, image, own)
        if key not in cluster.catalogs:
            cluster.catalogs[key] = assemble_catalog(
                settings.configured, inventory, table=settings.table, fallback_image=image, own=own
            )
        return Offer(
            catalog=cluster.catalogs[key],
            inventory=inventory,
            uncounted=settings.configured.uncounted,
            volume_topology=cluster.volume_topology,
            quotas=cluster.quotas,
            limit_ranges=cluster.limit_ranges,
            queues=cluster.queues,
            autoscaler=cluster.autoscaler,
            answer_by=answer_by,
            cache=self._cache,
        )


def make_value_key(value: Any) -> bytes | str:
    """Return a cache key for a value of a trait, such as the settings; different values have different keys.

    The keys differ even for ``True`` and ``1``, which Python considers equal.

    :param value: the value, as loaded from YAML or set by a Python configuration.
    """
    try:
        # Use marshal, because it takes a quarter of the time of repr. Use version 2 of its format: later versions mark
        # objects that are referenced more than once, so equal values may give different keys.
        return marshal.dumps(value, 2)
    except ValueError:
        return repr(value)  # marshal raises ValueError for objects that are not of built-in types
