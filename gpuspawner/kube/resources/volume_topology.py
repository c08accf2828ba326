"""Reads on which nodes the volumes of a pod's PersistentVolumeClaims can be mounted, and each node's volume limits.

:class:`VolumeTopology` reads only the claims of the current user's pod and caches each result for up to a minute.
:class:`VolumeLimits` watches the limits of CSI drivers, which CSINodes contain. If a node has such a limit, the class
also watches PersistentVolumes, VolumeAttachments and StorageClasses. If the hub may not read some of these
resources, a node counts as full only if the other resources show that the node has reached its limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from gpuspawner.core.cluster.decode_selectors import decode_volume_terms
from gpuspawner.core.cluster.model import NodeSelectorTerm, PodConstraints
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.volumes import (
    CSINode,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
    collect_volumes,
    decode_csi_node,
    decode_persistent_volume,
    decode_storage_class,
    decode_volume_attachment,
)
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.text.i18n import gettext_lazy
from gpuspawner.kube.client.api_requests import APIUnavailableError, CoreAPI, read_json
from gpuspawner.kube.client.pacing import CachedAnswers
from gpuspawner.kube.watch.object_caches import ObjectCache, VersionedCache
from gpuspawner.kube.watch.watch_loop import WatchLoop

VOLUME_CACHE_S = 60.0
VOLUME_RETRY_S = 5.0
"""Seconds for which the hub caches a result that should change soon, such as the result for an unbound claim. Even this
short time saves requests: one form checks a pod for each GPU type, and all these pods have the same claims."""
VOLUME_UNANSWERED_S = 10.0
"""Seconds until the hub asks again about a claim if the API server has not answered in time."""

STORAGE_GROUP = "storage.k8s.io"
CSI_NODES, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS = "csinodes", "persistentvolumes", "volumeattachments"
STORAGE_CLASSES = "storageclasses"

_UNREADABLE = gettext_lazy("where the home volume is, which the hub cannot read")
_UNBOUND = gettext_lazy("where the home volume will be made")
_DELETING = gettext_lazy("when the home volume, which is being deleted, is gone")
_LOST = gettext_lazy("the home volume, which is lost")
_MISSING = gettext_lazy("a volume claim that does not exist")
_EXCLUSIVE = gettext_lazy("whether another server uses the home volume")

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation that a claim has once it is completely bound (component-helpers/storage/volume/helpers.go)."""
_ONE_POD = "ReadWriteOncePod"


class _VolumePlacement(NamedTuple):
    """The nodes on which a claim's volume can be mounted.

    :param terms: sets of node selector terms of the volume; a node must match one term of each set.
    :param undecided: why the nodes are not known yet, as a text for users, for example "where the home volume will be
        made"; empty if they are known.
    :param kept_s: seconds for which the hub caches this result.
    """

    terms: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    undecided: str = ""
    kept_s: float = VOLUME_CACHE_S


_ABSENT = _VolumePlacement(kept_s=VOLUME_RETRY_S)
"""Result for a claim that does not exist."""


class VolumeTopology:
    """Reads and caches on which nodes the volumes of PersistentVolumeClaims can be mounted.

    :param timeout_s: timeout in seconds for two requests together: the one for a claim and the one for its volume.
    """

    def __init__(self, api: CoreAPI, *, timeout_s: float = 3.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._answers: CachedAnswers[tuple[str, str], _VolumePlacement] = CachedAnswers(clock=clock)
        """Answers by namespace and name of a claim."""

    async def resolve_claims(
        self,
        constraints: PodConstraints,
        *,
        namespace: str,
        new_claims: Collection[str] | None = None,
        wait_s: float | None = None,
    ) -> PodConstraints:
        """Return a pod's scheduling constraints with the node selector terms of its claims' volumes.

        A claim that KubeSpawner will create adds no terms: its StorageClass should use ``WaitForFirstConsumer``, so
        that the volume is created where the pod is scheduled. If the nodes of any other claim's volume are unknown,
        for example because the claim is missing, the result's ``undecided`` says what the nodes depend on.
        https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode

        :param constraints: the pod's constraints, whose ``unread_claims`` names the claims to read.
        :param new_claims: names of the claims that the hub will create if they do not exist; None if the hub has
            already created them. With None, a claim that is cached as missing is read again.
        :param wait_s: seconds to wait at most; None for no limit besides the requests' timeout.
        """
        if not constraints.unread_claims:
            return constraints
        claims = constraints.unread_claims
        found = await asyncio.gather(
            *(self._get_placement((namespace, claim), new_claims=new_claims, wait_s=wait_s) for claim in claims)
        )
        return replace(
            constraints,
            unread_claims=(),
            volume_terms=(*constraints.volume_terms, *(terms for placement in found for terms in placement.terms)),
            undecided=(*constraints.undecided, *filter(None, (placement.undecided for placement in found))),
        )

    async def _get_placement(
        self, key: tuple[str, str], *, new_claims: Collection[str] | None, wait_s: float | None
    ) -> _VolumePlacement:
        known = self._answers.get(key)
        is_created = new_claims is None and known is not None and known.value is _ABSENT
        found = await self._answers.read(key, partial(self._ask, *key), wait_s=wait_s, renew=is_created)
        if found is None:
            return _VolumePlacement(undecided=_UNREADABLE)
        is_new = key[1] in (new_claims or ())
        return _VolumePlacement(undecided=_MISSING) if found is _ABSENT and not is_new else found

    async def _ask(self, namespace: str, claim: str) -> tuple[_VolumePlacement, float]:
        try:
            async with asyncio.timeout(self._timeout_s):
                placement = await self._find(namespace, claim)
        except TimeoutError:
            return _VolumePlacement(undecided=_UNREADABLE), VOLUME_UNANSWERED_S
        return placement, placement.kept_s

    async def _find(self, namespace: str, claim: str) -> _VolumePlacement:
        try:
            read = self._api.read_namespaced_persistent_volume_claim
            found = as_dict(await read_json(read, name=claim, namespace=namespace))
        except APIUnavailableError as error:
            return _ABSENT if error.status == HTTPStatus.NOT_FOUND else _make_unreadable(error)
        metadata, spec = as_dict(found.get("metadata")), as_dict(found.get("spec"))
        if metadata.get("deletionTimestamp"):
            return _VolumePlacement(undecided=_DELETING, kept_s=VOLUME_RETRY_S)
        volume = as_text(spec.get("volumeName"))
        if not volume or _BIND_COMPLETED not in as_dict(metadata.get("annotations")):
            return _VolumePlacement(undecided=_UNBOUND, kept_s=VOLUME_RETRY_S)
        if as_dict(found.get("status")).get("phase") == "Lost":
            return _VolumePlacement(undecided=_LOST, kept_s=VOLUME_RETRY_S)
        modes = spec.get("accessModes")
        if isinstance(modes, list) and _ONE_POD in modes:
            return _VolumePlacement(undecided=_EXCLUSIVE)
        try:
            found = as_dict(await read_json(self._api.read_persistent_volume, name=volume))
            return _VolumePlacement(terms=decode_volume_terms(found))
        except APIUnavailableError as error:
            return _make_unreadable(error)


def _make_unreadable(error: APIUnavailableError) -> _VolumePlacement:
    return _VolumePlacement(
        undecided=_UNREADABLE, kept_s=VOLUME_CACHE_S if error.status == HTTPStatus.FORBIDDEN else VOLUME_RETRY_S
    )


class VolumeLimits:
    """Watches how many volumes CSI drivers may attach to each node, and keeps an :class:`Occupancy` up to date.

    :param follow: function that starts to watch a resource and returns the :class:`WatchLoop`. Its arguments are the
        plural name of the resource, and the cache for the resource's objects.
    :param occupancy: the cluster's nodes and pods. :meth:`update` stores the volume limits of the nodes, and the known
        volumes, in this object.
    """

    def __init__(self, follow: Callable[[str, ObjectCache[Any]], WatchLoop], *, occupancy: Occupancy) -> None:
        self._follow = follow
        self._occupancy = occupancy
        self._nodes = VersionedCache(decode_csi_node, on_put=self._note_node)
        self._volumes: VersionedCache[PersistentVolume] = VersionedCache(decode_persistent_volume)
        self._attachments: VersionedCache[VolumeAttachment] = VersionedCache(decode_volume_attachment)
        self._classes: VersionedCache[StorageClass] = VersionedCache(decode_storage_class)
        self._watch_loops: list[WatchLoop] = []
        self._seen: tuple[object, ...] = ()

    def start(self) -> None:
        """Start to watch CSINodes."""
        self._watch_loops.append(self._follow(CSI_NODES, self._nodes))

    def update(self) -> None:
        """If the volume limits or volumes have changed, store them in the :class:`Occupancy` of the cluster."""
        caches = (self._nodes, self._volumes, self._attachments, self._classes)
        is_volumes_known = len(self._watch_loops) > 1 and self._watch_loops[1].is_known
        seen = (*(each.version for each in caches), is_volumes_known)
        if seen == self._seen:
            return
        self._occupancy.put_volumes(
            collect_volumes(
                self._nodes.list_values(),
                self._volumes.list_values() if is_volumes_known else None,
                attachments=self._attachments.list_values(),
                classes=self._classes.list_values(),
            )
        )
        self._seen = seen

    def _note_node(self, node: CSINode) -> None:
        if node.limits and len(self._watch_loops) == 1:
            self._watch_loops += [
                self._follow(PERSISTENT_VOLUMES, self._volumes),
                self._follow(VOLUME_ATTACHMENTS, self._attachments),
                self._follow(STORAGE_CLASSES, self._classes),
            ]
