"""Counts the volumes that CSI drivers attach to each node, and finds the limit of each driver on each node.

The rules are those of kube-scheduler's plugin NodeVolumeLimits (nodevolumelimits/csi.go). gpuspawner treats each CSI
driver as a resource (:data:`VOLUMES_PREFIX`). A node's allocatable amount of the resource is the driver's limit, and a
pod requests 1 of the resource for each volume that the driver attaches for the pod. A driver without a limit on a node
may attach any number of volumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuspawner.core.cluster.decode import intern_amounts
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text

VOLUMES_PREFIX = "attachable-volumes-csi-"
"""Prefix of the resource that stands for a CSI driver's volumes; the driver's name follows. Earlier versions of kubelet
reported a driver's limit under this resource name."""
UNLIMITED = 2**62
"""A number above any number of volumes. It stands for the limit of a CSI driver that reports no limit."""

ClaimKey = tuple[str, str]
"""Namespace and name of a PersistentVolumeClaim."""

_MIGRATED_DISKS: Mapping[str, tuple[str, str, str]] = {
    "awsElasticBlockStore": ("volumeID", "ebs.csi.aws.com", "kubernetes.io/aws-ebs"),
    "azureDisk": ("diskURI", "disk.csi.azure.com", "kubernetes.io/azure-disk"),
    "cinder": ("volumeID", "cinder.csi.openstack.org", "kubernetes.io/cinder"),
    "gcePersistentDisk": ("pdName", "pd.csi.storage.gke.io", "kubernetes.io/gce-pd"),
    "portworxVolume": ("volumeID", "pxd.portworx.com", "kubernetes.io/portworx-volume"),
}
"""In-tree kind of volume that Kubernetes has migrated to CSI → three names: the field with the volume's ID, the CSI
driver that handles such volumes, and the in-tree provisioner (nodevolumelimits/utils.go, ``isCSIMigrationOn``)."""
_MIGRATED_PROVISIONERS = {provisioner: driver for _, driver, provisioner in _MIGRATED_DISKS.values()}
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class Volume(NamedTuple):
    """A volume of a CSI driver; two objects with equal values are the same volume.

    :param handle: the driver's ID of the volume.
    """

    driver: str
    handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CSINode:
    """How many volumes each CSI driver may attach to a node (v1 CSINode).

    :param limits: driver → maximum number of volumes that the driver may attach to the node; drivers without a limit
        are left out.
    """

    name: str
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolume:
    """A PersistentVolume and its claim.

    :param volume: the volume, None if no CSI driver handles it.
    :param claim: the claim that the volume is bound to, or is reserved for; two empty strings if there is no claim.
    :param is_migrated: whether a CSI driver handles the volume although its kind is in-tree (``awsElasticBlockStore``).
    """

    name: str
    volume: Volume | None
    claim: ClaimKey
    is_migrated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeAttachment:
    """A volume that is attached to a node, or is being attached or detached.

    :param persistent_volume: name of the PersistentVolume; empty for an inline volume in a pod's ``spec``.
    """

    name: str
    node: str
    driver: str
    persistent_volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A StorageClass.

    :param driver: the CSI driver that creates the volumes, or another provisioner.
    :param is_default: whether claims that name no StorageClass use this StorageClass.
    :param created: ``metadata.creationTimestamp``; of several default classes the newest applies.
    """

    name: str
    driver: str
    is_default: bool
    created: str


_PHASES_WITHOUT_CLAIM = ("Released", "Failed")
"""Phases in which a PersistentVolume still names its former claim. gpuspawner ignores that name, because a new claim of
the same name has another volume (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#phase)."""


def decode_csi_node(raw: object) -> CSINode:
    """Return a v1 CSINode; malformed parts are left out."""
    drivers = as_dicts(_get_spec(raw).get("drivers"))
    counts = {as_text(each.get("name")): as_int(as_dict(each.get("allocatable")).get("count")) for each in drivers}
    limits = {name: count for name, count in counts.items() if name and count is not None}
    return CSINode(name=_get_name(raw), limits=limits)


def decode_persistent_volume(raw: object) -> PersistentVolume:
    """Return a v1 PersistentVolume; malformed parts are left out."""
    spec = _get_spec(raw)
    csi, reference = as_dict(spec.get("csi")), as_dict(spec.get("claimRef"))
    if as_dict(as_dict(raw).get("status")).get("phase") in _PHASES_WITHOUT_CLAIM:
        reference = {}
    driver, handle = as_text(csi.get("driver")), as_text(csi.get("volumeHandle"))
    migrated = next((kind for kind in _MIGRATED_DISKS if isinstance(spec.get(kind), dict)), "") if not csi else ""
    if migrated:
        key, driver, _ = _MIGRATED_DISKS[migrated]
        handle = as_text(as_dict(spec[migrated]).get(key)).rpartition("/")[2]
    return PersistentVolume(
        name=_get_name(raw),
        volume=Volume(driver, handle) if driver and handle else None,
        claim=(as_text(reference.get("namespace")), as_text(reference.get("name"))),
        is_migrated=bool(migrated),
    )


def decode_volume_attachment(raw: object) -> VolumeAttachment:
    """Return a v1 VolumeAttachment; malformed parts are left out."""
    spec = _get_spec(raw)
    return VolumeAttachment(
        name=_get_name(raw),
        node=as_text(spec.get("nodeName")),
        driver=as_text(spec.get("attacher")),
        persistent_volume=as_text(as_dict(spec.get("source")).get("persistentVolumeName")),
    )


def decode_storage_class(raw: object) -> StorageClass:
    """Return a v1 StorageClass; malformed parts are left out."""
    whole = as_dict(raw)
    metadata, provisioner = as_dict(whole.get("metadata")), as_text(whole.get("provisioner"))
    annotations = as_dict(metadata.get("annotations"))
    return StorageClass(
        name=_get_name(raw),
        driver=_MIGRATED_PROVISIONERS.get(provisioner, provisioner),
        is_default=any(annotations.get(key) == "true" for key in _DEFAULT_CLASS),
        created=as_text(metadata.get("creationTimestamp")),
    )


def _get_name(raw: object) -> str:
    return as_text(as_dict(as_dict(raw).get("metadata")).get("name"))


def _get_spec(raw: object) -> dict[str, object]:
    return as_dict(as_dict(raw).get("spec"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVolumes:
    """The known volumes of the cluster, and how many volumes CSI drivers may attach to each node.

    If volumes are unknown, gpuspawner counts too few volumes on nodes. If limits are unknown, it assumes no limits.

    :param limits: node name → CSI driver → maximum number of volumes that the driver may attach to the node.
    :param drivers: the CSI drivers that have a limit on at least one node.
    :param of_claims: PersistentVolumeClaim → its volume.
    :param attached: node name → volumes that are attached to the node, even if no pod there uses them.
    """

    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    drivers: frozenset[str] = frozenset()
    of_claims: Mapping[ClaimKey, Volume] = field(default_factory=dict)
    attached: Mapping[str, frozenset[Volume]] = field(default_factory=dict)
    classes: tuple[StorageClass, ...] = ()

    def add_limits(self, node: Node) -> Node:
        """Return a copy of a node whose allocatable amounts include the volume limits of its CSI drivers.

        :param node: the node, with the allocatable amounts that kubelet reports.
        """
        if not self.limits:
            return node
        own = self.limits.get(node.name, {})
        amounts = {VOLUMES_PREFIX + driver: own.get(driver, UNLIMITED) for driver in sorted(self.drivers)}
        return replace(node, allocatable=intern_amounts({**node.allocatable, **amounts}))

    def count_on_node(self, node: str, claims: Iterable[ClaimKey]) -> Mapping[str, int]:
        """Return how many volumes of each CSI driver are on a node, as resource → number.

        A resource stands for a driver: its name is ``VOLUMES_PREFIX`` followed by the driver's name, as in the nodes'
        ``allocatable``. The result has only drivers that have a limit on at least one node. Volumes that are attached
        to the node count even if none of ``claims`` uses them.

        :param claims: the PersistentVolumeClaims of the pods on the node.
        """
        if not self.limits:
            return {}
        return self._count({*self._find_volumes(claims), *self.attached.get(node, ())})

    def add_needs(self, pod: Pod, *, new_claims: Mapping[str, str | None]) -> Pod:
        """Return a copy of a pod with the number of volumes that each CSI driver would attach for the pod.

        :attr:`.Pod.attachments` of the copy contains these numbers.

        :param pod: a pod that is not bound to a node yet.
        :param new_claims: name of a claim that will be created for the pod → name of the claim's StorageClass, None for
            the default StorageClass.
        """
        if not self.limits or not pod.claims:
            return pod
        keys = [(pod.namespace, claim) for claim in pod.claims]
        made = {
            Volume(found.driver, "/".join(key))
            for key in keys
            if key not in self.of_claims and (found := self._find_class(key[1], new_claims)) is not None
        }
        return replace(pod, attachments=intern_amounts(self._count({*self._find_volumes(keys), *made})))

    def count_shared(self, claims: Iterable[ClaimKey]) -> Mapping[str, int]:
        """Return how many volumes of each CSI driver are bound to the given claims, as resource → number.

        A resource stands for a driver: its name is ``VOLUMES_PREFIX`` followed by the driver's name. The result has
        only drivers that have a limit on at least one node.

        :param claims: PersistentVolumeClaims that a pending pod shares with the pods on one node.
        """
        return self._count(set(self._find_volumes(claims)))

    def select_limited(self, claims: Iterable[ClaimKey]) -> set[ClaimKey]:
        """Return those claims whose volume belongs to a CSI driver that has a limit on at least one node."""
        return {claim for claim in claims if any(each.driver in self.drivers for each in self._find_volumes([claim]))}

    def _find_volumes(self, claims: Iterable[ClaimKey]) -> Iterable[Volume]:
        return (self.of_claims[claim] for claim in claims if claim in self.of_claims)

    def _find_class(self, claim: str, new_claims: Mapping[str, str | None]) -> StorageClass | None:
        if claim not in new_claims:
            return None
        name = new_claims[claim]
        if name is not None:
            return next((each for each in self.classes if each.name == name), None)
        return max((each for each in self.classes if each.is_default), key=lambda each: each.created, default=None)

    def _count(self, volumes: Iterable[Volume]) -> dict[str, int]:
        return dict(Counter(VOLUMES_PREFIX + each.driver for each in volumes if each.driver in self.drivers))


def collect_volumes(
    csi_nodes: Iterable[CSINode],
    persistent_volumes: Iterable[PersistentVolume] | None,
    *,
    attachments: Iterable[VolumeAttachment],
    classes: Iterable[StorageClass] = (),
) -> ClusterVolumes:
    """Build the known volumes of the cluster and the volume limits of CSI drivers from Kubernetes objects.

    :param persistent_volumes: the PersistentVolumes; None if unknown.
    """
    known = None if persistent_volumes is None else {each.name: each for each in persistent_volumes}
    attached: dict[str, set[Volume]] = {}
    for each in attachments:
        if (volume := _find_attached(each, known)) is not None:
            attached.setdefault(each.node, set()).add(volume)
    limits = {each.name: each.limits for each in csi_nodes if each.limits}
    return ClusterVolumes(
        limits=limits,
        drivers=frozenset(driver for own in limits.values() for driver in own),
        of_claims={
            each.claim: each.volume for each in (known or {}).values() if each.volume is not None and all(each.claim)
        },
        attached={node: frozenset(volumes) for node, volumes in attached.items()},
        classes=tuple(classes),
    )


def _find_attached(attachment: VolumeAttachment, known: Mapping[str, PersistentVolume] | None) -> Volume | None:
    """Return the volume of a VolumeAttachment, or None if kube-scheduler does not count the attachment."""
    if not attachment.driver or not attachment.persistent_volume:
        return None
    if known is None:
        return Volume(attachment.driver, attachment.persistent_volume)
    found = known.get(attachment.persistent_volume)
    if found is None or found.volume is None or found.is_migrated:
        return None
    return Volume(attachment.driver, found.volume.handle)
