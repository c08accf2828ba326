from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuspawner.cli.check.cluster_warnings import compare_with_nodes, find_cluster_warnings
from gpuspawner.cli.cluster.cluster_view import read_configured_resources
from gpuspawner.cli.cluster.connection import ClusterError
from gpuspawner.cli.common.findings import Finding
from gpuspawner.cli.values.chart_config import build_spawner_config
from gpuspawner.cli.values.helm_values import merge_settings
from gpuspawner.core.cluster.model import Node, ScalableNodePool, Taint
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.hub.config.offer import Offer, OfferFactory
from gpuspawner.hub.pod.override_checks import parse_settings
from tests.unit.cli.conftest import Parsed, written_kubeconfig
from tests.unit.cli_support import paths, section, written

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
TYPE = "resource: nvidia.com/gpu, match: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}"


def node(name: str = "n1", **facts: Any) -> Node:
    amounts = {"cpu": 16_000, "memory": 60 * 1024**3, "nvidia.com/gpu": 4}
    return Node(**{"name": name, "labels": A100, "allocatable": amounts, "capacity": amounts} | facts)


def told(
    folder: Path, text: str, *nodes: Node, scalable_pools: tuple[ScalableNodePool, ...] = ()
) -> list[tuple[str, str]]:
    return paths(compared(folder, text, *nodes, scalable_pools=scalable_pools))


def compared(folder: Path, text: str, *nodes: Node, scalable_pools: tuple[ScalableNodePool, ...] = ()) -> list[Finding]:
    values = written(folder, section(text))
    settings = OfferFactory(parse_settings).parse(merge_settings(values))
    inventory = Inventory(nodes=nodes, scalable_pools=scalable_pools)
    catalog = assemble_catalog(settings.configured, inventory, table=settings.table, fallback_image="a/b")
    return list(compare_with_nodes(values, Offer(catalog=catalog, inventory=inventory), settings=settings))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"gpus: {{a: {{{TYPE}}}}}", []),
        ("gpus: {a: {resource: nvidia.com/gpu, match: {pool: x}}}", [("gpus.a", "matches_nothing")]),
        (f"gpus: {{a: {{{TYPE}, max_count: 8}}}}", [("gpus.a.max_count", "too_large")]),
        (f"gpus: {{a: {{{TYPE}, max_count: 8, scale_up: {{max_nodes: 1, gpus_per_node: 8, minutes: 1}}}}}}", []),
        ("gpus: {a: {resource: nvidia.com/gpu, match: {pool: x},"
         " scale_up: {max_nodes: 1, gpus_per_node: 8, minutes: 1}}}", []),
        ("cpu: {max: 16}\nmemory: {max: 60G}", []),
        ("cpu: {max: 32}\nmemory: {max: 61G}", [("memory.max", "too_large")]),
        ("cpu: {max: 33}", [("cpu.max", "too_large")]),
        ("images: {a: {image: a/b}}", [("images.a", "no_cuda")]),
        ("policy: {default: {gpus: [t4]}}", [("policy.default.gpus", "policy")]),
        ("presets: {p: {gpu: t4}}", [("presets.p", "preset")]),
    ],
)  # fmt: skip
def test_settings_are_compared_with_the_nodes(text: str, expected: list[tuple[str, str]], tmp_path: Path):
    assert told(tmp_path, text, node()) == expected


def test_taints_that_no_type_tolerates_are_reported(tmp_path: Path):
    tainted = node(taints=(Taint(key="team", effect="NoSchedule"),))
    assert told(tmp_path, f"gpus: {{a: {{{TYPE}}}}}", tainted) == [("gpus", "untolerated")]
    assert told(tmp_path, f"gpus: {{a: {{{TYPE}}}}}\ntolerations: [{{key: team, operator: Exists}}]", tainted) == []


def test_a_type_may_come_with_nodes_that_karpenter_makes(tmp_path: Path):
    scalable_pool = ScalableNodePool(name="gpu", minutes=None, node_allocatable={}, max_new_nodes=None)
    text = "gpus: {a: {resource: nvidia.com/gpu, match: {pool: x}}}"
    assert told(tmp_path, text, node(), scalable_pools=(scalable_pool,)) == []


@pytest.mark.parametrize(
    ("setting", "ending"),
    [
        pytest.param("possible", "if nothing does, set new_nodes: none", id="nodes may be added"),
        pytest.param("none", "and new_nodes is none: no server gets it", id="no nodes are added"),
    ],
)
def test_a_type_without_a_node_says_what_follows_from_new_nodes(setting: str, ending: str, tmp_path: Path):
    text = f"new_nodes: {setting}\ngpus: {{a: {{resource: nvidia.com/gpu, match: {{pool: x}}}}}}"
    (found,) = compared(tmp_path, text, node())
    assert (found.path, found.message.endswith(ending)) == ("hub.config.GPUSpawner.gpus.a", True)


def test_nodes_of_the_control_plane_hold_no_servers(tmp_path: Path):
    taint = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
    small, large = ({"cpu": cpus * 1000, "memory": 1024**3} for cpus in (2, 64))
    nodes = (node("cp", taints=(taint,), labels={}, allocatable=large, capacity=large),)
    nodes += (node("n", labels={}, allocatable=small, capacity=small),)
    assert told(tmp_path, "cpu: {max: 8}", *nodes) == [("cpu.max", "too_large")]


async def test_a_cluster_that_cannot_be_read_is_reported(parsed: Parsed, tmp_path: Path):
    arguments = parsed()
    arguments.kubeconfig = written_kubeconfig("http://127.0.0.9:1", tmp_path)
    with pytest.raises(ClusterError):
        await find_cluster_warnings(written(tmp_path, section("cpu: {max: 4}")), arguments, timeout_s=1.0)


def test_gpus_that_are_dropped_from_every_server_are_reported_where_they_are_set(tmp_path: Path):
    in_container = "extra_container_config: {resources: {limits: {nvidia.com/gpu: 1}}}"  # told without a cluster
    text = section(f"cpu: {{max: 4}}\n{in_container}", beside="singleuser: {extraResource: {limits: {amd.com/gpu: 1}}}")
    values = written(tmp_path, text)
    settings, inventory = OfferFactory(parse_settings).parse(merge_settings(values)), Inventory(nodes=(node(),))
    own = read_configured_resources(build_spawner_config(values.chart, namespace=""))
    catalog = assemble_catalog(settings.configured, inventory, table=settings.table, fallback_image="a/b", own=own)
    found = compare_with_nodes(values, Offer(catalog=catalog, inventory=inventory), settings=settings)
    assert paths(list(found)) == [("singleuser.extraResource.limits.amd.com/gpu", "dropped-gpus")]
