"""Random disks of a CSI driver that may attach only few of them to a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.fit.draw import Draw
from bench.fit.scene import Manifest
from bench.fit.vocabulary import CSI_DRIVER

_LIMITS = {0: 1, 1: 4, 2: 2, 3: 1}
_DISKS = {0: 3, 2: 2, 4: 2}


class Disks:
    """The disks of one scene; :class:`bench.fit.scene.Scene` describes the attributes.

    :param nodes: names of the nodes.
    :param namespace: of the disks' claims.
    """

    def __init__(self, draw: Draw, *, seed: int, nodes: Sequence[str], namespace: str) -> None:
        self._draw = draw
        self._namespace = namespace
        names = [f"d{number}-{seed}" for number in range(draw.weighted(_DISKS))]
        self.volumes = [_disk(name, namespace) for name in names]
        self.csi_nodes = [self._csi_node(node) for node in nodes if names and draw.chance(70)]
        self.attachments = [
            _attachment(f"a-{name}-{node}", name, node=node) for name in names for node in nodes if draw.chance(15)
        ]

    def mount(self, pods: Iterable[Manifest]) -> None:
        """Have some of the running pods use disks."""
        names = [disk["metadata"]["name"] for disk in self.volumes]
        for pod in pods:
            is_near = pod["metadata"]["namespace"] == self._namespace and "nodeName" in pod["spec"]
            if names and is_near and self._draw.chance(60):
                pod["spec"]["volumes"] = [
                    {"name": name, "persistentVolumeClaim": {"claimName": name}}
                    for name in self._draw.some(names, most=2)
                ]

    def _csi_node(self, node: str) -> Manifest:
        driver = {"name": CSI_DRIVER, "nodeID": node, "topologyKeys": []}
        if self._draw.chance(90):
            driver["allocatable"] = {"count": self._draw.weighted(_LIMITS)}
        return {"metadata": {"name": node}, "spec": {"drivers": [driver]}}


def _disk(name: str, namespace: str) -> Manifest:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": CSI_DRIVER, "volumeHandle": name},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _attachment(name: str, volume: str, *, node: str) -> Manifest:
    spec = {"attacher": CSI_DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": name}, "spec": spec}
