"""Cases by number: the same number gives the same cluster and pod on every machine.

Neighbours share a cluster, because to make one takes longer than to decide about a pod.
"""

from __future__ import annotations

import functools
from typing import Any

from bench.fit.amounts import Amounts
from bench.fit.crowd import Crowd
from bench.fit.disks import Disks
from bench.fit.draw import Draw
from bench.fit.nodes import draw_node
from bench.fit.places import zone_terms
from bench.fit.pods import draw_pod
from bench.fit.priorities import rank_pod, rank_pods
from bench.fit.scene import Case, Manifest, Scene
from bench.fit.vocabulary import BETA_ZONE, NAMESPACES, REGION, ZONE, ZONES

PODS_PER_SCENE = 10

_NODES = {1: 3, 2: 4, 3: 5, 4: 4, 5: 3, 7: 1}


def case(seed: int) -> Case:
    """Return the case of this number."""
    where = scene(seed // PODS_PER_SCENE)
    pod = draw_pod(Draw(f"pod {seed}"), f"case-{seed}", scene=where)
    rank_pod(Draw(f"priority {seed}"), pod)
    return Case(seed=seed, scene=where, pod=pod)


@functools.lru_cache(maxsize=16)
def scene(seed: int) -> Scene:
    """Return the cluster of this number. Its names hold the number, so that clusters never mix."""
    draw = Draw(f"scene {seed}")
    room: dict[str, Amounts] = {}
    nodes: list[Manifest] = []
    for number in range(draw.weighted(_NODES)):
        name = f"n{number}-{seed}"
        node, room[name] = draw_node(draw, name)
        nodes.append(node)
    crowd = Crowd(draw, seed=seed, room=room)
    volumes = [_volume(draw, f"v{number}-{seed}", nodes) for number in range(draw.weighted({0: 3, 1: 1, 3: 2}))]
    disks = Disks(Draw(f"disks {seed}"), seed=seed, nodes=list(room), namespace=crowd.company.namespace)
    disks.mount(crowd.pods)
    rank_pods(Draw(f"priorities {seed}"), crowd.pods)
    volumes += disks.volumes
    return Scene(
        seed=seed,
        company=crowd.company,
        nodes=tuple(nodes),
        pods=tuple(crowd.pods),
        leaving=frozenset(crowd.leaving),
        statuses=crowd.statuses,
        volumes=tuple(volumes),
        claims=tuple(_claim(volume) for volume in volumes),
        csi_nodes=tuple(disks.csi_nodes),
        attachments=tuple(disks.attachments),
        room=room,
    )


def _volume(draw: Draw, name: str, nodes: list[Manifest]) -> Manifest:
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": draw.one(list(NAMESPACES)),
            "name": name,
        },
    }
    if draw.chance(85):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": zone_terms(draw, nodes)}}
    metadata: Manifest = {"name": name}
    if draw.chance(15):
        metadata["labels"] = _zone_labels(draw)
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def _zone_labels(draw: Draw) -> dict[str, str]:
    """Return the labels by which volumes said where they are before there was node affinity for them."""
    zones = "__".join(draw.some(ZONES, most=2))
    return {draw.one((ZONE, ZONE, BETA_ZONE)): zones, **({REGION: "region-1"} if draw.chance(50) else {})}


def _claim(volume: Manifest) -> Manifest:
    """Return the claim that a volume is bound to, as the controller that binds them leaves it."""
    reference = volume["spec"]["claimRef"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": reference["name"],
            "namespace": reference["namespace"],
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": volume["metadata"]["name"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
