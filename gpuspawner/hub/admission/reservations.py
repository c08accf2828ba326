"""Counts running servers and starts without a pod, for the GPU limits of users and groups.

Running servers are read from the pods that KubeSpawner watches, so the count is correct after a restart of the hub. A
new start has no pod yet, so admission reserves the start's GPUs here. The reservation ends with the start, or a little
later if KubeSpawner's reflector does not have the start's pod yet (see :data:`UNSEEN_POD_S`). No function here awaits,
so no other start can change the counts during a call.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, NamedTuple

from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.policy.usage import ServerPod, ServerUsage, build_server_usage, is_known_type, read_server_pod
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import IsOwnPod, ServerKey, has_read_pods, list_watched_pods, read_pod_owners
from gpuspawner.hub.spawner_protocol import HubSpawner

UNSEEN_POD_S = 60.0
"""If KubeSpawner's reflector lacks a pod this many seconds after the request to create it, the hub assumes that the pod
does not exist. Until then, the pod's GPUs stay reserved. The reflector lists all pods at least twice a minute."""

OWNERS_CACHE_S = 5.0
"""Seconds for which the hub caches the owner (user and server) of each pod."""
_MAX_VIEWS = 16
"""Maximum number of catalogs for which the hub caches the GPUs of servers; another catalog clears the cache.

Users may have different catalogs, because ``group_overrides`` may change the settings for a group."""

ReadGroups = Callable[[set[str]], Mapping[str, frozenset[str]] | None]
"""Function that takes user names and returns user name → group names, or None if the hub's database is not readable.

The group names are normalized for comparison."""


@dataclass(slots=True)
class _Reservation:
    """The GPUs that are reserved for a server that is being started.

    :param spawn: JupyterHub's future of the start; None without a hub.
    :param old_uids: uids of the pods that the server had before the start. Its other pods belong to the start.
    :param unseen_until: monotonic seconds until which the reservation may continue after the start, because
        KubeSpawner's reflector may lack the new pod; 0 = the reservation ends with the start.
    """

    server: ServerUsage
    spawner: HubSpawner
    spawn: object
    old_uids: frozenset[str]
    unseen_until: float = 0.0


class _DecodedPod(NamedTuple):
    """A decoded pod, cached until its ``resourceVersion`` or owner changes.

    :param pod: the decoded pod, or None if the pod is malformed, has finished or belongs to no server of this hub.
    :param owner: names of the user and the server, from the hub's spawner objects; None if no spawner has this pod.
    :param servers: number of a catalog (``_number_view``) → the pod's server, with its GPUs and pools (GPUs that groups
        share) by that catalog. A catalog is missing if the hub could not read the necessary node labels or groups.
    """

    version: object
    pod: ServerPod | None
    owner: ServerKey | None
    servers: dict[int, ServerUsage]


class Reservations:
    """Counts servers for the GPU limits of users and groups; the hub's process has one object of this class.

    :param clock: returns monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: dict[str, _DecodedPod] = {}
        self._uids_of: dict[ServerKey, frozenset[str]] | None = None
        self._owners: Mapping[str, ServerKey] = {}
        self._owners_until = -math.inf
        self._views: dict[object, int] = {}
        self._starts: list[_Reservation] = []
        self._has_logged_failure = False

    def list_servers(
        self, spawner: HubSpawner, catalog: Catalog, *, inventory: Inventory, read_groups: ReadGroups
    ) -> tuple[ServerUsage, ...] | None:
        """Return all running and starting servers of the hub, or None until KubeSpawner's reflector has listed pods.

        :param spawner: any spawner of the hub; gives access to the reflectors and to the users that the hub has loaded.
        :param catalog: all GPU types and pools (GPUs that groups share), including those denied to the user.
        :param inventory: the cluster's nodes; their labels identify GPU types.
        :param read_groups: returns the groups of users. If a pod has no annotation that names its pools, they follow
            from the groups of its user.
        """
        if not has_read_pods(spawner):
            return None
        self._read_pods(spawner)
        found = self._build_servers(catalog, inventory=inventory, groups_of=read_groups)
        self._drop_ended()
        # On a node, the pod of a start of several possible types has one type, and counts instead of the start.
        starts = [start.server for start in self._starts if start.server.gpu != "" or not self._has_pod(start)]
        return tuple(_merge_starts(found, starts)) if starts else tuple(found)

    def reserve(self, spawner: HubSpawner, server: ServerUsage) -> None:
        """Reserve the GPUs of a start, until the start ends; this replaces what the start has reserved before.

        The reservations of earlier starts of the server stay until these starts have ended: until then, an earlier
        start may still create its pod.

        :param server: the server, with the GPUs and pools (GPUs that groups share) that it will use.
        """
        self._forget_other_loops()
        spawn = private_api.get_spawn_future(spawner)
        self._starts = [start for start in self._starts if start.spawner is not spawner or start.spawn is not spawn]
        self._starts.append(_Reservation(server, spawner, spawn, self._uids(server)))

    @contextmanager
    def track_creation(self, spawner: HubSpawner) -> Iterator[None]:
        """Keep a start's GPUs reserved until KubeSpawner's reflector has the pod that the ``with`` block creates.

        Without the pod in the reflector, the reservation ends :data:`UNSEEN_POD_S` seconds after this call, but not
        before the start ends. If the API server refuses the pod, the reservation ends with the start.
        """
        start = next((start for start in reversed(self._starts) if start.spawner is spawner), None)
        if start is None:
            yield
            return
        unseen_until = start.unseen_until
        start.old_uids, start.unseen_until = self._uids(start.server), self._clock() + UNSEEN_POD_S
        try:
            yield
        except ApiException as error:
            if (error.status or HTTPStatus.INTERNAL_SERVER_ERROR) < HTTPStatus.INTERNAL_SERVER_ERROR:
                start.unseen_until = unseen_until
            raise

    def release_seen(self, spawner: HubSpawner) -> None:
        """Let a GPU reservation end with its start, if KubeSpawner's reflector has the start's pod.

        The pod then counts instead. If the reflector lacks the pod, change nothing.
        """
        starts = [start for start in self._starts if start.spawner is spawner and start.unseen_until]
        if starts and has_read_pods(spawner):
            self._read_pods(spawner)
            for start in starts:
                self._note_seen(start)

    def _note_seen(self, start: _Reservation) -> None:
        if self._has_pod(start):
            start.unseen_until = 0.0

    def _has_pod(self, start: _Reservation) -> bool:
        return not self._uids(start.server) <= start.old_uids

    def _uids(self, server: ServerUsage) -> frozenset[str]:
        """Return the uids of a server's pods that the last call of :meth:`_read_pods` found."""
        if self._uids_of is None:
            found: dict[ServerKey, set[str]] = {}
            for known in self._known.values():
                if known.pod:
                    found.setdefault((known.pod.owner, known.pod.name), set()).add(known.pod.uid)
            self._uids_of = {owner: frozenset(uids) for owner, uids in found.items()}
        return self._uids_of.get((server.owner, server.name), frozenset())

    def _read_pods(self, spawner: HubSpawner) -> None:
        if (now := self._clock()) >= self._owners_until:
            self._owners, self._owners_until = read_pod_owners(spawner), now + OWNERS_CACHE_S
        found: dict[str, _DecodedPod] = {}
        for raws, is_own in list_watched_pods(spawner):
            for key, raw in raws.items():
                known, version, owner = (
                    self._known.get(key),
                    raw["metadata"].get("resourceVersion"),
                    self._owners.get(key),
                )
                if known is None or version is None or known.version != version or known.owner != owner:
                    known = _DecodedPod(
                        version, self._decode_pod(raw, owner, is_own=is_own, spawner=spawner), owner, {}
                    )
                found[key] = known
        self._known, self._uids_of = found, None

    def _decode_pod(
        self, raw: Mapping[str, Any], owner: ServerKey | None, *, is_own: IsOwnPod, spawner: HubSpawner
    ) -> ServerPod | None:
        try:
            # Prefer the owner from the hub's spawners: the pod's annotations keep the old name of a renamed user.
            return read_server_pod(raw, owned_by=owner) if owner or is_own(raw) else None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Skip a malformed pod: an exception here would break the form of every user.
            if not self._has_logged_failure:
                self._has_logged_failure = True
                spawner.log.warning("Limits leave out a pod of a server that cannot be understood: %s", error)
            return None

    def _build_servers(self, catalog: Catalog, *, inventory: Inventory, groups_of: ReadGroups) -> list[ServerUsage]:
        view = self._number_view(catalog)
        new = {key: known.pod for key, known in self._known.items() if known.pod and view not in known.servers}
        uncertain: dict[str, ServerUsage] = {}
        if new:
            pools = catalog.policy.pools if catalog.policy is not None else {}
            unannotated = {pod.owner for pod in new.values() if pools and pod.pools is None and pod.devices}
            groups = groups_of(unannotated) if unannotated else {}
            unlabeled = {key for key, pod in new.items() if _needs_node_labels(pod, catalog)}
            labels = {node.name: node.labels for node in inventory.nodes or ()} if unlabeled else {}
            for key, pod in new.items():
                own = None if groups is None else groups.get(pod.owner, frozenset())
                server = build_server_usage(pod, catalog, labels=labels.get(pod.node), groups=own)
                is_certain = (groups is not None or pod.owner not in unannotated) and (
                    key not in unlabeled or pod.node in labels
                )
                (self._known[key].servers if is_certain else {})[view] = server
                if not is_certain:
                    uncertain[key] = server
        return [
            uncertain[key] if key in uncertain else known.servers[view]
            for key, known in self._known.items()
            if known.pod
        ]

    def _number_view(self, catalog: Catalog) -> int:
        """Return the same number for all catalogs with the same GPU types and pools (GPUs that groups share)."""
        key = _make_view_key(catalog)
        if key not in self._views and len(self._views) >= _MAX_VIEWS:
            self._views.clear()
            for known in self._known.values():
                known.servers.clear()
        return self._views.setdefault(key, len(self._views))

    def _drop_ended(self) -> None:
        self._forget_other_loops()
        now = self._clock()
        kept = []
        for start in self._starts:
            if not self._is_in_progress(start):
                self._note_seen(start)
                if start.unseen_until <= now:
                    continue
            kept.append(start)
        self._starts = kept

    def _is_in_progress(self, start: _Reservation) -> bool:
        spawner = start.spawner
        if spawner.has_open_start:
            return True  # a start of this spawner was cancelled, and its pod may exist or come
        last = next(other for other in reversed(self._starts) if other.spawner is spawner)
        return last is start and private_api.is_starting(spawner)

    def _forget_other_loops(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._starts = loop, []


def _needs_node_labels(pod: ServerPod, catalog: Catalog) -> bool:
    return bool(pod.devices and pod.node and not (pod.annotated_gpu and is_known_type(catalog, pod.annotated_gpu)))


def _make_view_key(catalog: Catalog) -> object:
    types = (
        (gpu.slug, gpu.resource, tuple(sorted(gpu.match.items())), tuple(member.slug for member in gpu.members))
        for gpu in (*catalog.gpus.values(), *catalog.hidden)
    )
    pools = () if catalog.policy is None else catalog.policy.pools.values()
    return (tuple(types), tuple((pool.slug, pool.groups, pool.gpus) for pool in pools))


def _merge_starts(found: Iterable[ServerUsage], starts: Iterable[ServerUsage]) -> Iterator[ServerUsage]:
    """Yield running and starting servers, each with its GPUs and pools (GPUs that groups share).

    A server may have a pod, and also several starts in progress, of which all but one end:

    - Those with the same GPU type count once, with the largest number of GPUs and with all of their pools: the server
      has at most one pod at a time. The pools can differ, because the user's groups may have changed.
    - Those with different GPU types all count: the old pod still has its GPUs.

    :param found: the servers that have a pod.
    :param starts: the servers as their starts request them.
    """
    merged: dict[tuple[str, str, str | None], ServerUsage] = {}
    for server in starts:
        key = (server.owner, server.name, server.gpu)
        merged[key] = _merge(merged.get(key, server), server)
    for server in found:
        key = (server.owner, server.name, server.gpu)
        if key in merged:
            merged[key] = _merge(server, merged[key])
        else:
            yield server
    yield from merged.values()


def _merge(one: ServerUsage, other: ServerUsage) -> ServerUsage:
    pools = tuple(dict.fromkeys((*one.pools, *other.pools)))
    return replace(one, count=max(one.count, other.count), pools=pools)
