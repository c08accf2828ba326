"""Which servers there are, and which are being started: what limits of a person and of a group are counted from.

Servers that exist are those whose pods KubeSpawner watches, so that the count is right after a restart of the hub as
well. A start has no pod yet that could be seen: it is written down here in the same breath in which it is let through,
and stays until its pod shows, or it is certain that there will be none. Nothing here waits for anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple

from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.catalogue import Catalogue
from gpuspawner.core.inventory import Inventory
from gpuspawner.core.server_pods import ServerPod, server_of, server_pod
from gpuspawner.core.usage import Server
from gpuspawner.hub.own_servers import is_watched, watched_pods

UNSEEN_S = 60.0
"""How long a pod may stay unseen that the API server was asked for: KubeSpawner lists all of them twice a minute."""

GroupsOf = Callable[[set[str]], Mapping[str, frozenset[str]] | None]
"""Returns the groups of people, casefolded, by name; None where they cannot be read."""


@dataclass(slots=True)
class _Start:
    """A server that is being started.

    :param before: uid of the pod that the server had when it was let through.
    :param unseen_until: until when a pod may still show that was asked for, in monotonic seconds.
    """

    server: Server
    spawner: Any
    before: frozenset[str]
    unseen_until: float = 0.0


class _Known(NamedTuple):
    """What a pod was understood as.

    :param catalogue: with which types.
    """

    version: object
    pod: ServerPod | None
    catalogue: Catalogue | None = None
    server: Server | None = None


class Ledger:
    """One for the hub's process.

    :param clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: dict[str, _Known] = {}
        self._starts: dict[tuple[str, str], _Start] = {}

    def servers(
        self, spawner: Any, catalogue: Catalogue, *, inventory: Inventory, groups_of: GroupsOf
    ) -> tuple[Server, ...] | None:
        """Return all servers of the hub, those that are being started among them; None while pods are not known.

        :param spawner: anybody's.
        """
        if not is_watched(spawner):
            return None
        self._look(spawner)
        self._understand(catalogue, inventory=inventory, groups_of=groups_of)
        self._drop_ended()
        starts = {key: start.server for key, start in self._starts.items()}
        found = [known.server for known in self._known.values() if known.server is not None]
        return tuple(_merged(found, starts)) if starts else tuple(found)

    def reserve(self, spawner: Any, server: Server) -> None:
        """Write down that a server is being started; what was written down for it before goes."""
        self._forget_other_loops()
        self._starts[server.owner, server.name] = _Start(server, spawner, self._uids(server))

    @contextmanager
    def creating(self, spawner: Any) -> Iterator[None]:
        """Note that the API server is asked for a pod: unless it says no, there may be one soon."""
        start = self._starts.get((spawner.user.name, spawner.name))
        if start is None:
            yield
            return
        before = start.unseen_until
        start.before, start.unseen_until = self._uids(start.server), self._clock() + UNSEEN_S
        try:
            yield
        except ApiException as error:
            if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                start.unseen_until = before
            raise

    def settle(self, spawner: Any) -> None:
        """Look whether the pod of a start is to be seen: from then on it speaks for itself."""
        start = self._starts.get((spawner.user.name, spawner.name))
        if start is not None and start.unseen_until and is_watched(spawner):
            self._look(spawner)
            self._note_seen(start)

    def _note_seen(self, start: _Start) -> None:
        if not self._uids(start.server) <= start.before:
            start.unseen_until = 0.0

    def _uids(self, server: Server) -> frozenset[str]:
        """Return the pods that a server has, of those read last."""
        pods = (known.pod for known in self._known.values())
        return frozenset(pod.uid for pod in pods if pod and (pod.owner, pod.name) == (server.owner, server.name))

    def _look(self, spawner: Any) -> None:
        """Read the pods that are new or have changed."""
        found: dict[str, _Known] = {}
        for raws in watched_pods(spawner):
            for key, raw in raws.items():
                known, version = self._known.get(key), raw["metadata"].get("resourceVersion")
                if known is None or version is None or known.version != version:
                    known = _Known(version, server_pod(raw))
                found[key] = known
        self._known = found

    def _understand(self, catalogue: Catalogue, *, inventory: Inventory, groups_of: GroupsOf) -> None:
        """Make servers of the pods that are new, have changed, or were understood with other types."""
        new = {key: known.pod for key, known in self._known.items() if known.pod and known.catalogue is not catalogue}
        if not new:
            return
        pools = catalogue.policy.pools if catalogue.policy is not None else {}
        silent = {pod.owner for pod in new.values() if pools and pod.pools is None and (pod.devices or pod.noted_gpu)}
        groups = groups_of(silent) if silent else {}
        labels = {node.name: node.labels for node in inventory.nodes or ()} if _is_any_untold(new.values()) else {}
        for key, pod in new.items():
            own = None if groups is None else groups.get(pod.owner, frozenset())
            server = server_of(pod, catalogue, labels=labels.get(pod.node), groups=own)
            is_certain = groups is not None or pod.owner not in silent
            self._known[key] = _Known(self._known[key].version, pod, catalogue if is_certain else None, server)

    def _drop_ended(self) -> None:
        self._forget_other_loops()
        now = self._clock()
        for key, start in list(self._starts.items()):
            if _is_under_way(start.spawner):
                continue
            self._note_seen(start)
            if start.unseen_until <= now:
                del self._starts[key]

    def _forget_other_loops(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._starts = loop, {}


def _is_under_way(spawner: Any) -> bool:
    """Tell whether JupyterHub or KubeSpawner is still at a start: both forget it by themselves, however it ends."""
    future = spawner._start_future
    return bool(spawner._spawn_pending or spawner._start_pending or (future is not None and not future.done()))


def _is_any_untold(pods: Iterable[ServerPod]) -> bool:
    return any(pod.devices and pod.noted_gpu is None and pod.node for pod in pods)


def _merged(found: Iterable[Server], starts: dict[tuple[str, str], Server]) -> Iterator[Server]:
    """Yield servers that exist and that are being started; one that is both counts once, by the larger number.

    What it had before, of another type, counts as well: it has not gone yet.

    :param starts: by owner and name; changed.
    """
    for server in found:
        start = starts.get((server.owner, server.name))
        if start is None or start.gpu != server.gpu:
            yield server
        elif server.count > start.count:
            del starts[server.owner, server.name]
            yield server
    yield from starts.values()
