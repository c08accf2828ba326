"""Creates pods so that servers without a GPU do not run on GPU nodes while other nodes have room for these servers.

The pod of a server without a GPU has a preferred node affinity for nodes without GPUs, but kube-scheduler may weigh
other criteria higher. Only a required node affinity prevents the pod from running on a GPU node, but then the pod
stays pending if no other node has room. Right before sending the finished pod, the hub therefore checks whether a node
without GPUs has room. If so, the hub makes the node affinity required; if not, the pod may run on any node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any

from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.hub.pod.patch import merge_node_affinity
from gpuspawner.hub.pod.preview import exclude_gpu_nodes, serialize_for_scheduling
from gpuspawner.hub.start.state import StartingSpawner

CreatePod = Callable[[Any], Awaitable[bool]]
"""Function that sends a pod to the API server and returns whether the pod exists now."""


class GPUNodeExclusion:
    """Creates pods and decides which of them must not run on GPU nodes; the hub has one object of this class."""

    def __init__(self) -> None:
        self._excluded: set[asyncio.Future[bool]] = set()
        """Requests in progress, of all users, that create pods which must not run on GPU nodes."""

    async def create_pod(self, spawner: StartingSpawner, pod: Any, *, create: CreatePod) -> bool:
        """Create a pod and return whether it exists now; KubeSpawner repeats the call if the pod does not exist.

        :param pod: the pod as a model of the Kubernetes client, after all hooks; it stays unchanged.
        """
        avoided = spawner.start_state.avoided
        if not avoided:
            return await create(pod)
        offer, draft = await spawner.make_offer(), serialize_for_scheduling(spawner, pod)
        manifest = spawner.start_state.admitted_pod or draft
        located = await offer.add_volume_topology(manifest)
        if located is None:
            return await create(pod)
        # Do not await between this check and put_pod(). Otherwise, a second start could check the nodes in between, and
        # would not count this pod.
        is_kept = exclude_gpu_nodes(manifest, located, avoided=avoided, inventory=offer.inventory) is manifest
        occupancy = offer.inventory.occupancy or Occupancy()
        if occupancy.get_pod(located.namespace, located.name) is None:
            # Count the new pod's resources until the watch reports the pod. If an earlier pod of that name exists, only
            # the earlier pod counts: it holds its resources until it is deleted.
            occupancy.put_pod(located)
        is_created = False
        try:
            if is_kept:
                is_created = await self._create_after_excluded(pod, create, spawner=spawner)
            else:
                # Extend the affinity in `draft`. The dry run's answer already has the rules that webhooks add, and the
                # webhooks would add them a second time.
                affinity = merge_node_affinity(draft["spec"].get("affinity"), required=avoided)
                is_created = await self._create_excluded(_replace_affinity(pod, affinity), create)
            return is_created
        finally:
            if not is_created and occupancy.get_pod(located.namespace, located.name) is located:
                occupancy.remove_pod(located.namespace, located.name)

    async def _create_excluded(self, pod: Any, create: CreatePod) -> bool:
        request = asyncio.ensure_future(create(pod))
        self._excluded.add(request)
        request.add_done_callback(self._excluded.discard)
        return await request

    async def _create_after_excluded(self, pod: Any, create: CreatePod, *, spawner: StartingSpawner) -> bool:
        """Create a pod that may run on any node, after the pods that must not run on GPU nodes.

        This pod also prefers nodes without GPUs. If it were created first, kube-scheduler could place it first, and it
        could take the other pods' room there. Wait for the other pods at most ``k8s_api_request_timeout`` seconds.
        """
        if self._excluded:
            await asyncio.wait(tuple(self._excluded), timeout=spawner.k8s_api_request_timeout)
        return await create(pod)


def _replace_affinity(pod: Any, affinity: Mapping[str, Any]) -> Any:
    changed, spec = copy(pod), copy(pod.spec)
    if isinstance(spec, dict):  # A hook may have replaced the Kubernetes client's model by a dict.
        spec["affinity"] = affinity
    else:
        spec.affinity = affinity
    changed.spec = spec
    return changed
