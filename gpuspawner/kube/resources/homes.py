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

from gpuspawner.core.cluster.model import Demands, NodeTerm
from gpuspawner.core.cluster.volumes import volume_terms
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.kube.client.requests import APIUnavailableError, ListMethod, body_of, send

KEPT_S = 60.0
SOON_S = 5.0
"""What will be over soon is asked for again then, and not by each of the choices of one form: a server may be waiting
for a claim that is made and bound together with it."""
_MOST_KEPT = 4096

_UNREAD = "where the home volume is, which the hub cannot read"
_UNBOUND = "where the home volume will be made"
_LEAVING = "when the home volume, which is being deleted, is gone"
_EXCLUSIVE = "whether another server uses the home volume"

_BOUND = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim that is bound for good (component-helpers/storage/volume/helpers.go)."""
_ONE_POD = "ReadWriteOncePod"


class VolumesAPI(Protocol):
    """What is used of ``kubernetes_asyncio.client.CoreV1Api``."""

    @property
    def read_namespaced_persistent_volume_claim(self) -> ListMethod:
        """Read a claim."""

    @property
    def read_persistent_volume(self) -> ListMethod:
        """Read a volume."""


class _Home(NamedTuple):
    """Where a claim's volume can be used.

    :param undecided: why that is not known, in people's words; empty when it is.
    :param kept_s: seconds that this is good for.
    """

    terms: tuple[tuple[NodeTerm, ...], ...] = ()
    undecided: str = ""
    kept_s: float = KEPT_S


class Homes:
    """Remembers what claims lead to, for everybody in this process.

    :param timeout_s: seconds for each of the two requests that a claim takes.
    :param clock: monotonic seconds.
    """

    def __init__(self, api: VolumesAPI, *, timeout_s: float = 3.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], tuple[float, _Home]] = OrderedDict()
        """Namespace and claim → until when it is good, and what it leads to."""

    async def located(self, demands: Demands, *, namespace: str) -> Demands:
        """Return demands with the nodes that the volumes behind their claims can be used on.

        A claim that does not exist is made together with the server, and its volume then where the server is: the
        storage class of a home should say ``WaitForFirstConsumer``.
        https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
        """
        if not demands.claims:
            return demands
        homes = await asyncio.gather(*(self._home(namespace, claim) for claim in demands.claims))
        return replace(
            demands,
            claims=(),
            volume_terms=(*demands.volume_terms, *(terms for home in homes for terms in home.terms)),
            undecided=(*demands.undecided, *(home.undecided for home in homes if home.undecided)),
        )

    async def _home(self, namespace: str, claim: str) -> _Home:
        key, now = (namespace, claim), self._clock()
        if key in self._kept and now < self._kept[key][0]:
            return self._kept[key][1]
        home = await self._find(namespace, claim)
        self._kept[key] = (now + home.kept_s, home)
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return home

    async def _find(self, namespace: str, claim: str) -> _Home:
        try:
            found = await self._read(self._api.read_namespaced_persistent_volume_claim, claim, namespace=namespace)
        except APIUnavailableError as error:
            return _Home(kept_s=SOON_S) if error.status == HTTPStatus.NOT_FOUND else _unread(error)
        metadata, spec = mapping(found.get("metadata")), mapping(found.get("spec"))
        if metadata.get("deletionTimestamp"):
            return _Home(undecided=_LEAVING, kept_s=SOON_S)
        volume = text(spec.get("volumeName"))
        if not volume or _BOUND not in mapping(metadata.get("annotations")):
            return _Home(undecided=_UNBOUND, kept_s=SOON_S)
        modes = spec.get("accessModes")
        if isinstance(modes, list) and _ONE_POD in modes:
            return _Home(undecided=_EXCLUSIVE)
        try:
            return _Home(terms=volume_terms(await self._read(self._api.read_persistent_volume, volume)))
        except APIUnavailableError as error:
            return _unread(error)

    async def _read(self, method: ListMethod, name: str, **arguments: Any) -> Mapping[str, Any]:
        response = await send(method, name=name, _request_timeout=self._timeout_s, **arguments)
        try:
            found = json.loads(await body_of(response))
        except (ValueError, RecursionError) as error:
            raise APIUnavailableError("the answer is no JSON") from error
        return found if isinstance(found, dict) else {}


def _unread(error: APIUnavailableError) -> _Home:
    return _Home(undecided=_UNREAD, kept_s=KEPT_S if error.status == HTTPStatus.FORBIDDEN else SOON_S)
