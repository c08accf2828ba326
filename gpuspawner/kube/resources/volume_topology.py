"""Finds out where the volumes behind a pod's claims can be used: a home in one zone keeps its server there.

Asked for one person's claims at a time, so nothing is watched; what was found is good for a minute.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from gpuspawner.core.cluster.decode_selectors import decode_volume_terms
from gpuspawner.core.cluster.model import NodeSelectorTerm, PodConstraints
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, read_body, send_request

VOLUME_CACHE_S = 60.0
VOLUME_RETRY_S = 5.0
"""What will be over soon is asked for again then, and not by each of the choices of one form: a server may be waiting
for a claim that is made and bound together with it."""
_MAX_CACHED = 4096

_UNREADABLE = "where the home volume is, which the hub cannot read"
_UNBOUND = "where the home volume will be made"
_DELETING = "when the home volume, which is being deleted, is gone"
_EXCLUSIVE = "whether another server uses the home volume"

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim that is bound for good (component-helpers/storage/volume/helpers.go)."""
_ONE_POD = "ReadWriteOncePod"


class VolumesAPI(Protocol):
    """What is used of ``kubernetes_asyncio.client.CoreV1Api``."""

    @property
    def read_namespaced_persistent_volume_claim(self) -> APIMethod:
        """Read a claim."""

    @property
    def read_persistent_volume(self) -> APIMethod:
        """Read a volume."""


class _VolumePlacement(NamedTuple):
    """Where a claim's volume can be used.

    :param undecided: why that is not known, in people's words; empty when it is.
    :param kept_s: seconds that this is good for.
    """

    terms: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    undecided: str = ""
    kept_s: float = VOLUME_CACHE_S


class VolumeTopology:
    """Remembers what claims lead to, for everybody in this process.

    :param timeout_s: seconds for each of the two requests that a claim takes.
    :param clock: monotonic seconds.
    """

    def __init__(self, api: VolumesAPI, *, timeout_s: float = 3.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], tuple[float, _VolumePlacement]] = OrderedDict()
        """Namespace and claim → until when it is good, and what it leads to."""

    async def resolve_claims(self, constraints: PodConstraints, *, namespace: str) -> PodConstraints:
        """Return demands with the nodes that the volumes behind their claims can be used on.

        A claim that does not exist is made together with the server, and its volume then where the server is: the
        storage class of a home should say ``WaitForFirstConsumer``.
        https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
        """
        if not constraints.unread_claims:
            return constraints
        homes = await asyncio.gather(*(self._home(namespace, claim) for claim in constraints.unread_claims))
        return replace(
            constraints,
            unread_claims=(),
            volume_terms=(*constraints.volume_terms, *(terms for home in homes for terms in home.terms)),
            undecided=(*constraints.undecided, *(home.undecided for home in homes if home.undecided)),
        )

    async def _home(self, namespace: str, claim: str) -> _VolumePlacement:
        key, now = (namespace, claim), self._clock()
        if key in self._kept and now < self._kept[key][0]:
            return self._kept[key][1]
        home = await self._find(namespace, claim)
        self._kept[key] = (now + home.kept_s, home)
        self._kept.move_to_end(key)
        if len(self._kept) > _MAX_CACHED:
            self._kept.popitem(last=False)
        return home

    async def _find(self, namespace: str, claim: str) -> _VolumePlacement:
        try:
            found = await self._read(self._api.read_namespaced_persistent_volume_claim, claim, namespace=namespace)
        except APIUnavailableError as error:
            return (
                _VolumePlacement(kept_s=VOLUME_RETRY_S)
                if error.status == HTTPStatus.NOT_FOUND
                else _make_unreadable(error)
            )
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
        response = await send_request(method, name=name, _request_timeout=self._timeout_s, **arguments)
        try:
            found = json.loads(await read_body(response))
        except (ValueError, RecursionError) as error:
            raise APIUnavailableError("the answer is no JSON") from error
        return found if isinstance(found, dict) else {}


def _make_unreadable(error: APIUnavailableError) -> _VolumePlacement:
    return _VolumePlacement(
        undecided=_UNREADABLE, kept_s=VOLUME_CACHE_S if error.status == HTTPStatus.FORBIDDEN else VOLUME_RETRY_S
    )
