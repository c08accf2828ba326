"""The cluster that a pod is decided in: nodes, pods that run on them, volumes. Plain v1 objects, as they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.fit.amounts import Amounts

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """The common features of many pods of a scene, so that rules about each other bite."""

    namespace: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One random cluster.

    :param pods: those bound to a node, and those that wait: for another scheduler, or for room that is being made.
    :param leaving: names of those pods that are deleted but not gone.
    :param statuses: what to write into the status of some pods, by the pods' names.
    :param volumes: PersistentVolumes, each bound to the claim in ``spec.claimRef``.
    :param claims: PersistentVolumeClaims; those without a volume wait for their first pod.
    :param csi_nodes: CSINodes, each with the limit of one CSI driver.
    :param attachments: VolumeAttachments of volumes of that driver.
    :param room: what the pods leave of each node, by node name; only for choosing interesting requests.
    """

    seed: int
    company: Company
    nodes: tuple[Manifest, ...]
    pods: tuple[Manifest, ...]
    leaving: frozenset[str]
    statuses: Mapping[str, Manifest]
    volumes: tuple[Manifest, ...]
    claims: tuple[Manifest, ...]
    csi_nodes: tuple[Manifest, ...]
    attachments: tuple[Manifest, ...]
    room: Mapping[str, Amounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One decision: may this pod run somewhere in this scene now."""

    seed: int
    scene: Scene
    pod: Manifest
