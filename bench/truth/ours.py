"""Our side: the hub's own store of the cluster, its catalog and verdicts, and the pods that KubeSpawner makes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jupyterhub.objects import Hub
from kubernetes_asyncio.config import kube_config
from traitlets.config import Config

from bench.truth.facts import View
from bench.truth.vocabulary import GPU, NAMESPACE, PRODUCT, Manifest
from devcluster.errors import DevclusterError
from gpuspawner.core.cluster.decode import decode_node, decode_pod
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.request.pod_requirements import place
from gpuspawner.core.request.selection import validate
from gpuspawner.core.verdict.verdict import Verdict
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.pod.patch import PodChoice, apply_choice, list_gpu_resources
from gpuspawner.hub.pod.preview import PodPreviews, serialize_pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.preflight import draft_pod
from gpuspawner.kube.resources.queue_places import QueuePlaces
from gpuspawner.kube.store import ClusterStore, StoreTiming

SEEN_TIMEOUT_S = 2.0
FIRST_LISTS_S = 30.0
POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The verdict on a choice.

    :param manifest: the pod as it would be sent.
    :param labels: what any node of the chosen GPU type has.
    """

    verdict: Verdict
    manifest: Manifest
    labels: Mapping[str, str]


class Ours:
    """The hub's part of one cluster."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store

    async def has_seen(self, view: View) -> bool:
        """Return whether the store gets to know the nodes and pods of a view in time, and read the NodePools.

        In a hub the NodePools are up to ten seconds older.
        """
        seen = _summarize(map(decode_node, view.nodes), map(decode_pod, view.pods))
        deadline = time.monotonic() + SEEN_TIMEOUT_S
        while True:
            inventory = await self._store.read_inventory()
            pods = inventory.occupancy.iter_pods() if inventory.occupancy else ()
            if _summarize(inventory.nodes or (), pods) == seen:
                break
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(POLL_S)
        await self._store._node_pools._read()
        return True

    async def offered(self, settings: Manifest, *, products: frozenset[str]) -> dict[str, int]:
        """Return the slugs of the GPU types with these labels, and how many the form offers of each."""
        offer = await make_spawner(settings, "anyone").make_offer()
        return {
            slug: gpu.max_count
            for slug, gpu in offer.catalog.gpus.items()
            if gpu.resource == GPU and not products.isdisjoint(gpu.match.get(PRODUCT, ()))
        }

    async def say(self, settings: Manifest, user: str, *, options: Manifest, sees_pools: bool = True) -> Statement:
        """Return the verdict on a user's choice, and the pod that a start would create.

        :param sees_pools: False for what a hub says that sees no NodePools, as if another autoscaler ran.
        """
        spawner = make_spawner(settings, user)
        # In a hub, data of the queue is up to 5 seconds older.
        offer: Offer = replace(await spawner.make_offer(), queues=QueuePlaces(spawner.api.api_client))
        if not sees_pools:
            offer = replace(offer, inventory=replace(offer.inventory, scalable_pools=()))
        selection = validate(options, offer.catalog)
        previews = PodPreviews(spawner, offer)
        await previews.prepare(selection)
        pod = previews.find_pod(selection)
        gpu = None if selection.gpu is None else offer.catalog.gpus[selection.gpu]
        if pod is None:
            raise DevclusterError(f"no pod of {options}")
        verdict = offer.predict_verdict(pod, gpu=gpu, queue=previews.find_queue(selection))
        choice = PodChoice(placement=place(selection, offer.catalog), resources=list_gpu_resources(offer.catalog))
        apply_choice(spawner, choice)
        manifest = serialize_pod(spawner, await draft_pod(spawner))
        labels = {} if gpu is None else {key: values[0] for key, values in gpu.match.items() if values}
        return Statement(verdict=verdict, manifest=manifest, labels=labels)


@asynccontextmanager
async def opened(kubeconfig: Path) -> AsyncIterator[Ours]:
    """Watch a cluster inside the block."""
    # KubeSpawner loads what this names; KUBECONFIG is read when the module is imported, before there is a cluster.
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = str(kubeconfig)
    store = GPUSpawner.offer_factory.get_store(
        make_spawner({}, "anyone").api, pace=StoreTiming(first_sync_timeout_s=FIRST_LISTS_S)
    )
    try:
        yield Ours(store)
    finally:
        await store.stop()


def make_spawner(settings: Manifest, name: str) -> Any:
    """Return a user's spawner, which is never started."""
    user = SimpleNamespace(name=name, id=1, url=f"/user/{name}/", settings={}, groups=[], escaped_name=name)
    spawner = GPUSpawner(
        hub=Hub(ip="127.0.0.1", port=8081),
        user=user,
        config=Config({"GPUSpawner": {**settings, "namespace": NAMESPACE}}),
        api_token="secret",  # noqa: S106 - never sent
        oauth_client_id="unused",
    )
    # The environment and arguments of the pod's program need a hub, and no scheduler reads them.
    spawner.get_env, spawner.get_args = dict, list
    return spawner


def _summarize(
    nodes: Iterable[Node | None], pods: Iterable[Pod | None]
) -> tuple[dict[str, object], dict[tuple[str, str], object]]:
    """Return what a scheduler looks at of nodes and pods, by name."""

    def of_node(node: Node) -> object:
        return node.labels, node.taints, node.unschedulable, node.ready, node.allocatable, node.capacity

    def of_pod(pod: Pod) -> object:
        return pod.node, pod.terminating, pod.nominated_node, pod.requests, pod.constraints.is_gated

    return (
        {node.name: of_node(node) for node in nodes if node is not None},
        {(pod.namespace, pod.name): of_pod(pod) for pod in pods if pod is not None},
    )
