"""Which servers there are, and which are being started: what limits of a person and of a group are counted from.

Servers that exist are those whose pods KubeSpawner watches, so that the count is right after a restart of the hub as
well. A start has no pod yet that could be seen: it is written down here in the same breath in which it is let through,
and stays until its pod shows, or it is certain that there will be none. Nothing here waits for anything.
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
from gpuspawner.core.policy.server_pods import ServerPod, build_server_usage, is_known_type, read_server_pod
from gpuspawner.core.policy.usage import ServerUsage
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import IsOwnPod, ServerKey, has_read_pods, list_watched_pods, read_pod_owners
from gpuspawner.hub.spawner_protocol import WatchingSpawner

UNSEEN_POD_S = 60.0
"""How long a pod may stay unseen that the API server was asked for: KubeSpawner lists all of them twice a minute."""

OWNERS_CACHE_S = 5.0
"""How long it is remembered whose the pods are."""
_MAX_VIEWS = 16
"""Different GPU types and pools that pods were understood with; group overrides may give some users others."""

ReadGroups = Callable[[set[str]], Mapping[str, frozenset[str]] | None]
"""Returns the groups of people, casefolded, by name; None where they cannot be read."""


@dataclass(slots=True)
class _Reservation:
    """A server that is being started.

    :param before: uid of the pod that the server had when it was let through.
    :param unseen_until: until when a pod may still show that was asked for, in monotonic seconds.
    """

    server: ServerUsage
    spawner: WatchingSpawner
    before: frozenset[str]
    unseen_until: float = 0.0


class _DecodedPod(NamedTuple):
    """What a pod was understood as.

    :param owner: whose it is by the hub's word.
    :param servers: by number of the types and pools that it was understood with; what may change is not among them.
    """

    version: object
    pod: ServerPod | None
    owner: ServerKey | None
    servers: dict[int, ServerUsage]


class Reservations:
    """One for the hub's process.

    :param clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: dict[str, _DecodedPod] = {}
        self._uids_of: dict[ServerKey, frozenset[str]] | None = None
        self._owners: Mapping[str, ServerKey] = {}
        self._owners_until = -math.inf
        self._views: dict[object, int] = {}
        self._starts: dict[ServerKey, _Reservation] = {}
        self._is_told = False

    def list_servers(
        self, spawner: WatchingSpawner, catalogue: Catalog, *, inventory: Inventory, read_groups: ReadGroups
    ) -> tuple[ServerUsage, ...] | None:
        """Return all servers of the hub, those that are being started among them; None while pods are not known.

        :param spawner: anybody's.
        """
        if not has_read_pods(spawner):
            return None
        self._read_pods(spawner)
        found = self._build_servers(catalogue, inventory=inventory, groups_of=read_groups)
        self._drop_ended()
        starts = {key: start.server for key, start in self._starts.items()}
        return tuple(_merge_starts(found, starts)) if starts else tuple(found)

    def reserve(self, spawner: WatchingSpawner, server: ServerUsage) -> None:
        """Write down that a server is being started; what was written down for it before goes."""
        self._forget_other_loops()
        self._starts[server.owner, server.name] = _Reservation(server, spawner, self._uids(server))

    @contextmanager
    def track_creation(self, spawner: WatchingSpawner) -> Iterator[None]:
        """Note that the API server is asked for a pod: unless it says no, there may be one soon."""
        start = self._starts.get((spawner.user.name, spawner.name))
        if start is None:
            yield
            return
        before = start.unseen_until
        start.before, start.unseen_until = self._uids(start.server), self._clock() + UNSEEN_POD_S
        try:
            yield
        except ApiException as error:
            if (error.status or HTTPStatus.INTERNAL_SERVER_ERROR) < HTTPStatus.INTERNAL_SERVER_ERROR:
                start.unseen_until = before
            raise

    def release_seen(self, spawner: WatchingSpawner) -> None:
        """Look whether the pod of a start is to be seen: from then on it speaks for itself."""
        start = self._starts.get((spawner.user.name, spawner.name))
        if start is not None and start.unseen_until and has_read_pods(spawner):
            self._read_pods(spawner)
            self._note_seen(start)

    def _note_seen(self, start: _Reservation) -> None:
        if not self._uids(start.server) <= start.before:
            start.unseen_until = 0.0

    def _uids(self, server: ServerUsage) -> frozenset[str]:
        """Return the pods that a server has, of those read last."""
        if self._uids_of is None:
            found: dict[ServerKey, set[str]] = {}
            for known in self._known.values():
                if known.pod:
                    found.setdefault((known.pod.owner, known.pod.name), set()).add(known.pod.uid)
            self._uids_of = {owner: frozenset(uids) for owner, uids in found.items()}
        return self._uids_of.get((server.owner, server.name), frozenset())

    def _read_pods(self, spawner: WatchingSpawner) -> None:
        """Read the pods that are new, have changed, or belong to a user who has another name now."""
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
        self, raw: Mapping[str, Any], owner: ServerKey | None, *, is_own: IsOwnPod, spawner: WatchingSpawner
    ) -> ServerPod | None:
        try:
            # The hub's own word goes first: a server that was moved or renamed is where nobody would look for it.
            return read_server_pod(raw, owned_by=owner) if owner or is_own(raw) else None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # One strange pod must not take everybody's form away.
            if not self._is_told:
                self._is_told = True
                spawner.log.warning("Limits leave out a pod of a server that cannot be understood: %s", error)
            return None

    def _build_servers(self, catalogue: Catalog, *, inventory: Inventory, groups_of: ReadGroups) -> list[ServerUsage]:
        """Make servers of the pods, anew of those that have changed or were understood with other types."""
        view = self._view(catalogue)
        new = {key: known.pod for key, known in self._known.items() if known.pod and view not in known.servers}
        changing: dict[str, ServerUsage] = {}
        if new:
            pools = catalogue.policy.pools if catalogue.policy is not None else {}
            silent = {pod.owner for pod in new.values() if pools and pod.pools is None and pod.devices}
            groups = groups_of(silent) if silent else {}
            untold = {key for key, pod in new.items() if _needs_node_labels(pod, catalogue)}
            labels = {node.name: node.labels for node in inventory.nodes or ()} if untold else {}
            for key, pod in new.items():
                own = None if groups is None else groups.get(pod.owner, frozenset())
                server = build_server_usage(pod, catalogue, labels=labels.get(pod.node), groups=own)
                is_certain = (groups is not None or pod.owner not in silent) and (
                    key not in untold or pod.node in labels
                )
                (self._known[key].servers if is_certain else {})[view] = server
                if not is_certain:
                    changing[key] = server
        return [
            changing[key] if key in changing else known.servers[view] for key, known in self._known.items() if known.pod
        ]

    def _view(self, catalogue: Catalog) -> int:
        """Return a number for all that pods are understood with: catalogues come and go with every node."""
        key = _make_view_key(catalogue)
        if key not in self._views and len(self._views) >= _MAX_VIEWS:
            self._views.clear()
            for known in self._known.values():
                known.servers.clear()
        return self._views.setdefault(key, len(self._views))

    def _drop_ended(self) -> None:
        self._forget_other_loops()
        now = self._clock()
        for key, start in list(self._starts.items()):
            if private_api.is_starting(start.spawner):
                continue
            self._note_seen(start)
            if start.unseen_until <= now:
                del self._starts[key]

    def _forget_other_loops(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._starts = loop, {}


def _needs_node_labels(pod: ServerPod, catalogue: Catalog) -> bool:
    """Tell whether only its node says of which type a pod's GPUs are."""
    return bool(pod.devices and pod.node and not (pod.annotated_gpu and is_known_type(catalogue, pod.annotated_gpu)))


def _make_view_key(catalogue: Catalog) -> object:
    types = (
        (gpu.slug, gpu.resource, tuple(sorted(gpu.match.items())), bool(gpu.members))
        for gpu in (*catalogue.gpus.values(), *catalogue.hidden)
    )
    pools = () if catalogue.policy is None else catalogue.policy.pools.values()
    return (tuple(types), tuple((pool.slug, pool.groups, pool.gpus) for pool in pools))


def _merge_starts(found: Iterable[ServerUsage], starts: dict[ServerKey, ServerUsage]) -> Iterator[ServerUsage]:
    """Yield servers that exist and that are being started; one that is both counts once, by the larger number.

    It counts towards the pools of both then: those of its person may be others than when its pod was made. What it had
    before, of another type, counts as well: it has not gone yet.

    :param starts: by owner and name; changed.
    """
    for server in found:
        key = (server.owner, server.name)
        start = starts.get(key)
        if start is None or start.gpu != server.gpu:
            yield server
        else:
            pools = tuple(dict.fromkeys((*server.pools, *start.pools)))
            starts[key] = replace(start, count=max(start.count, server.count), pools=pools)
    yield from starts.values()
