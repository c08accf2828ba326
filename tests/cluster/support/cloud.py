"""Clusters as clouds, operators and device plugins make them: simulated nodes, and what an overlay must make of them.

Each file in ``clouds`` is named like the overlay in ``helm-values`` that it belongs to, and has the format of
``devcluster/fleet.yaml`` with three more keys:

    types:                    what the form offers, no more and no less
      <slug>:
        pools: [l4]           where its servers go
        resource: nvidia.com/gpu
        count: 2              how many GPUs one asks for
    cpu: [user]               where servers without a GPU go
    added: [l4]               pools that have no node before a server needs one (may be left out)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import ApiClient, CoreV1Api

from devcluster import Cluster, simulated
from devcluster.api import Api
from devcluster.processes import poll
from devcluster.run_dir import RunDir
from devcluster.simulated import Pool
from devcluster.waiting import last_words

CLOUDS = Path(__file__).with_name("clouds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Where servers with one GPU type run.

    :param pools: where they go.
    :param count: GPUs that each asks for.
    """

    pools: tuple[str, ...]
    resource: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """One cluster.

    :param there: pools that have nodes from the beginning.
    :param added: pools whose nodes an autoscaler adds when a server needs them.
    :param types: slug of a GPU type → where its servers run.
    :param cpu: pools that servers without a GPU go to.
    """

    there: tuple[Pool, ...]
    added: tuple[Pool, ...]
    types: Mapping[str, Expected]
    cpu: tuple[str, ...]

    def is_empty(self, slug: str) -> bool:
        """Tell whether there is no node yet for a GPU type."""
        return set(self.types[slug].pools) <= {pool.name for pool in self.added}


def load(name: str) -> Cloud:
    """Read the file of an overlay."""
    path = CLOUDS / f"{name}.yaml"
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    pools = simulated.load(path)
    added = set(document.get("added", ()))
    types = {
        slug: Expected(pools=tuple(entry["pools"]), resource=entry["resource"], count=entry["count"])
        for slug, entry in document["types"].items()
    }
    return Cloud(
        there=tuple(pool for pool in pools if pool.name not in added),
        added=tuple(pool for pool in pools if pool.name in added),
        types=types,
        cpu=tuple(document["cpu"]),
    )


def put_up(cluster: Cluster, api: ApiClient, pools: Iterable[Pool]) -> None:
    """Make these the simulated nodes of a cluster, and wait until servers can be put on them."""
    folder = RunDir(cluster.run_dir)
    addresses = folder.load()
    assert addresses is not None
    simulated.apply(lambda: Api(folder, addresses), tuple(pools))
    core = CoreV1Api(api)
    if not poll(lambda: not _list_unready(core), timeout_s=60, interval_s=0.1):
        unready = "; ".join(_list_unready(core))
        raise AssertionError(f"not ready after 60 s: {unready}. Supervisor: {last_words(folder)}")


def pool_of(node: str) -> str:
    """Return the pool of a simulated node, by their names."""
    return node.rpartition("-")[0]


def without_real_node(cluster: Cluster, api: ApiClient) -> None:
    """Take the node that runs pods out of a cluster; its kubelet tells the API server of it only once, at its start."""
    CoreV1Api(api).delete_node(cluster.real_node)


def _list_unready(core: CoreV1Api) -> list[str]:
    """Return the nodes that are not ready or have the taint of such nodes, each with what says so."""
    return [text for node in core.list_node().items if (text := _describe_unready(node))]


def _describe_unready(node: Any) -> str:
    ready = [each for each in node.status.conditions or [] if each.type == "Ready"]
    taints = [each.key for each in node.spec.taints or [] if each.key == "node.kubernetes.io/not-ready"]
    if [each.status for each in ready] == ["True"] and not taints:
        return ""
    return f"{node.metadata.name} ({', '.join([*(f'{each.status} {each.reason}' for each in ready), *taints])})"
