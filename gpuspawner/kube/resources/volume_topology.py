"""Reads on which nodes the volumes of a pod's PersistentVolumeClaims can be mounted, such as the nodes of one zone.

The hub reads only the claims of the current user's pod and caches each result for up to a minute.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from gpuspawner.core.cluster.decode_selectors import decode_volume_terms
from gpuspawner.core.cluster.model import NodeSelectorTerm, PodConstraints
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, read_body, send_request
from gpuspawner.kube.client.pacing import SharedTasks

VOLUME_CACHE_S = 60.0
VOLUME_RETRY_S = 5.0
"""Seconds for which the hub caches a result that should change soon, such as that of an unbound claim. All choices in a
form use the cached result."""
VOLUME_UNANSWERED_S = 10.0
"""Seconds until the next request after one without an answer in time."""
_MAX_CACHED = 4096

_UNREADABLE = "where the home volume is, which the hub cannot read"
_UNBOUND = "where the home volume will be made"
_DELETING = "when the home volume, which is being deleted, is gone"
_EXCLUSIVE = "whether another server uses the home volume"

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation that a claim has once it is completely bound (component-helpers/storage/volume/helpers.go)."""
_ONE_POD = "ReadWriteOncePod"


class VolumesAPI(Protocol):
    """The part of ``kubernetes_asyncio.client.CoreV1Api`` that this module uses."""

    @property
    def read_namespaced_persistent_volume_claim(self) -> APIMethod:
        """Read a claim."""

    @property
    def read_persistent_volume(self) -> APIMethod:
        """Read a volume."""


class _VolumePlacement(NamedTuple):
    """The nodes on which a claim's volume can be mounted.

    :param terms: node selector terms of the volume; a node must match one term of each inner tuple.
    :param undecided: why the nodes are unknown, in words for users; empty if they are known.
    :param kept_s: seconds for which the hub caches this result.
    """

    terms: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    undecided: str = ""
    kept_s: float = VOLUME_CACHE_S


_ABSENT = _VolumePlacement(kept_s=VOLUME_RETRY_S)
"""Result for a claim that does not exist."""


class VolumeTopology:
    """Reads and caches on which nodes the volumes of PersistentVolumeClaims can be mounted.

    :param api: the hub's ``CoreV1Api``.
    :param timeout_s: timeout in seconds of both requests together, for the claim and for its volume.
    :param clock: monotonic seconds.
    """

    def __init__(self, api: VolumesAPI, *, timeout_s: float = 3.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._clock = clock
        self._cache: OrderedDict[tuple[str, str], tuple[float, _VolumePlacement]] = OrderedDict()
        """Namespace and name of a claim → seconds of the clock until which the result is cached, and the result."""
        self._requests: SharedTasks[tuple[str, str], _VolumePlacement] = SharedTasks()

    async def resolve_claims(
        self, constraints: PodConstraints, *, namespace: str, is_created: bool = False, wait_s: float | None = None
    ) -> PodConstraints:
        """Return a pod's scheduling constraints with the node selector terms of the volumes of its claims added.

        A claim that does not exist yet adds no terms: KubeSpawner creates it when the server starts. The claim's
        StorageClass should use ``WaitForFirstConsumer``, so that the volume is created where the pod is scheduled.
        https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode

        :param constraints: the pod's constraints, whose ``unread_claims`` names the claims to read.
        :param namespace: namespace of the pod.
        :param is_created: the hub has created the claims by now, so a claim that was absent before is read again.
        :param wait_s: seconds to wait at most; None for no limit besides the requests' timeout.
        """
        if not constraints.unread_claims:
            return constraints
        claims = constraints.unread_claims
        found = await asyncio.gather(
            *(self._get_placement((namespace, claim), is_created=is_created, wait_s=wait_s) for claim in claims)
        )
        return replace(
            constraints,
            unread_claims=(),
            volume_terms=(*constraints.volume_terms, *(terms for placement in found for terms in placement.terms)),
            undecided=(*constraints.undecided, *filter(None, (placement.undecided for placement in found))),
        )

    async def _get_placement(self, key: tuple[str, str], *, is_created: bool, wait_s: float | None) -> _VolumePlacement:
        now = self._clock()
        until, known = self._cache.get(key, (now, _ABSENT))
        if now < until and not (is_created and known is _ABSENT):
            return known
        found = await self._requests.wait_for(key, partial(self._ask, *key), wait_s=wait_s)
        return _VolumePlacement(undecided=_UNREADABLE) if found is None else found

    async def _ask(self, namespace: str, claim: str) -> _VolumePlacement:
        try:
            async with asyncio.timeout(self._timeout_s):
                placement = await self._find(namespace, claim)
        except TimeoutError:
            placement = _VolumePlacement(undecided=_UNREADABLE, kept_s=VOLUME_UNANSWERED_S)
        key = (namespace, claim)
        self._cache[key] = (self._clock() + placement.kept_s, placement)
        self._cache.move_to_end(key)
        if len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return placement

    async def _find(self, namespace: str, claim: str) -> _VolumePlacement:
        try:
            found = await self._read(self._api.read_namespaced_persistent_volume_claim, claim, namespace=namespace)
        except APIUnavailableError as error:
            return _ABSENT if error.status == HTTPStatus.NOT_FOUND else _make_unreadable(error)
        metadata, spec = as_dict(found.get("metadata")), as_dict(found.get("spec"))
        if metadata.get("deletionTimestamp"):
            return _VolumePlacement(undecided=_DELETING, kept_s=VOLUME_RETRY_S)
        volume = as_text(spec.get("volumeName"))
        if not volume or _BIND_COMPLETED not in as_dict(metadata.get("annotations")):
            return _VolumePlacement(undecided=_UNBOUND, kept_s=VOLUME_RETRY_S)
        modes = spec.get("accessModes")
        if isinstance(modes, list) and _ONE_POD in modes:
            return _VolumePlacement(undecided=_EXCLUSIVE)
        try:
            return _VolumePlacement(
                terms=decode_volume_terms(await self._read(self._api.read_persistent_volume, volume))
            )
        except APIUnavailableError as error:
            return _make_unreadable(error)

    async def _read(self, method: APIMethod, name: str, **arguments: Any) -> Mapping[str, Any]:
        response = await send_request(method, name=name, **arguments)
        try:
            found = json.loads(await read_body(response))
        except (ValueError, RecursionError) as error:
            raise APIUnavailableError("the answer is no JSON") from error
        return found if isinstance(found, dict) else {}


def _make_unreadable(error: APIUnavailableError) -> _VolumePlacement:
    return _VolumePlacement(
        undecided=_UNREADABLE, kept_s=VOLUME_CACHE_S if error.status == HTTPStatus.FORBIDDEN else VOLUME_RETRY_S
    )
