"""Simulated nodes: Node objects made from a YAML file, which KWOK keeps alive.

The real scheduler places pods on them, KWOK says that they run, and nothing ever answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from devcluster import kubeconfig
from devcluster.api import Api
from devcluster.components import Component, Plan, flags
from devcluster.errors import DevclusterError
from devcluster.processes import poll

SIMULATED = "gpuspawner.jupyter.org/simulated"
"""The label of every simulated node."""

_FLEET = "gpuspawner.jupyter.org/fleet"
"""The annotation that tells whether a node is as the file wants it."""

_WORKERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Some equal simulated nodes."""

    name: str
    count: int
    allocatable: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield the pool's Node objects."""
        for number in range(1, self.count + 1):
            yield self._node(f"{self.name}-{number}")

    def _node(self, name: str) -> dict[str, Any]:
        resources = {"pods": "110", "ephemeral-storage": "500Gi", **self.allocatable}
        labels = {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": name,
            "type": "kwok",
            SIMULATED: "true",
            **self.labels,
        }
        node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {}},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"allocatable": resources, "capacity": resources},
        }
        digest = hashlib.sha256(json.dumps(node, sort_keys=True).encode()).hexdigest()[:16]
        node["metadata"]["annotations"][_FLEET] = digest
        return node


def load(path: Path) -> tuple[Pool, ...]:
    """Read a fleet file; devcluster/fleet.yaml describes the format.

    Raises DevclusterError that names the file and the pool where something is wrong.
    """
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise DevclusterError(f"cannot read the simulated nodes' file: {error}") from error
    except yaml.YAMLError as error:
        raise DevclusterError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not isinstance(document.get("pools"), dict):
        raise DevclusterError(f"{path} has no mapping `pools`")
    return tuple(_pool(path, str(name), entry=entry) for name, entry in document["pools"].items())


def _pool(path: Path, name: str, *, entry: object) -> Pool:
    known = {"count": int, "allocatable": dict, "labels": dict, "taints": list}
    if not isinstance(entry, dict):
        raise DevclusterError(f"{path}: pools.{name} is no mapping")
    for key, value in entry.items():
        if key not in known:
            raise DevclusterError(f"{path}: pools.{name}.{key} is unknown; there are {', '.join(known)}")
        if not isinstance(value, known[key]):
            raise DevclusterError(f"{path}: pools.{name}.{key} is no {known[key].__name__}")
    if not {"cpu", "memory"} <= set(entry.get("allocatable", {})):
        raise DevclusterError(f"{path}: pools.{name}.allocatable needs cpu and memory")
    return Pool(
        name=name,
        count=entry.get("count", 1),
        allocatable={str(key): str(value) for key, value in entry["allocatable"].items()},
        labels={str(key): str(value) for key, value in entry.get("labels", {}).items()},
        taints=tuple(entry.get("taints", ())),
    )


def apply(connect: Callable[[], Api], pools: tuple[Pool, ...]) -> None:
    """Make the cluster's simulated nodes the ones of these pools; nodes that are so already stay untouched."""
    with connect() as api:
        found = (api.get(f"/api/v1/nodes?labelSelector={SIMULATED}%3Dtrue") or {})["items"]
    there = {node["metadata"]["name"]: node["metadata"].get("annotations", {}).get(_FLEET) for node in found}
    wanted = {node["metadata"]["name"]: node for pool in pools for node in pool.nodes()}
    same = {name for name, digest in there.items() if name in wanted and digest == _digest(wanted[name])}
    stale = sorted(there.keys() - same)
    missing = [node for name, node in wanted.items() if name not in same]

    def work(number: int) -> None:
        with connect() as api:
            for name in stale[number::_WORKERS]:
                api.delete(f"/api/v1/nodes/{name}")
            # A node that changed was stale in this or another worker's share, so its name may be taken a little longer.
            for node in missing[number::_WORKERS]:
                poll(lambda node=node: api.create("/api/v1/nodes", node) is not None, timeout_s=10)  # type: ignore[misc]

    with ThreadPoolExecutor(_WORKERS) as workers:
        list(workers.map(work, range(min(_WORKERS, len(stale) + len(missing)))))


def _digest(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["annotations"][_FLEET])


def component(plan: Plan) -> Component:
    """Return KWOK."""
    options = flags(
        kubeconfig=kubeconfig.for_certificate(plan.run_dir, plan.addresses, user="kwok"),
        config=Path(__file__).with_name("kwok.yaml"),
        manage_nodes_with_label_selector=f"{SIMULATED}=true",
        node_lease_duration_seconds=0,
        cidr=plan.addresses.simulated_subnet,
        node_ip=plan.addresses.loopback,
    )
    return Component(name="kwok", argv=(str(plan.binaries / "kwok"), *options), needs_api=True)
