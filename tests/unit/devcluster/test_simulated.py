from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.errors import DevclusterError
from devcluster.simulated import Pool, load

FLEET = Path(__file__).parents[3] / "devcluster" / "fleet.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no mapping `pools`"),
        ("pools: [a]", "has no mapping `pools`"),
        ("pools: {a: {count: [", "is no YAML"),
        ("pools: {a: 3}", "pools.a is no mapping"),
        ("pools: {a: {cuont: 3}}", "pools.a.cuont is unknown; there are count, allocatable, labels, taints"),
        ("pools: {a: {count: many}}", "pools.a.count is no int"),
        ("pools: {a: {count: 2}}", "pools.a.allocatable needs cpu and memory"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(DevclusterError) as raised:
        load(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DevclusterError, match=str(tmp_path / "none")):
        load(tmp_path / "none")


def test_a_pool_makes_numbered_nodes_of_its_resources_labels_and_taints() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    pool = Pool(name="a", count=2, allocatable={"cpu": "4", "memory": "8Gi"}, labels={"x": "y"}, taints=(taint,))
    first, second = pool.nodes()
    assert [node["metadata"]["name"] for node in (first, second)] == ["a-1", "a-2"]
    assert first["metadata"]["labels"].items() >= {"x": "y", "gpuspawner.jupyter.org/simulated": "true"}.items()
    assert first["spec"]["taints"] == [taint]
    assert first["status"]["allocatable"].items() >= {"cpu": "4", "memory": "8Gi", "pods": "110"}.items()


def test_a_node_that_changes_in_the_file_is_distinguished() -> None:
    small, large = (next(Pool(name="a", count=1, allocatable={"cpu": cpu}).nodes()) for cpu in ("1", "2"))
    assert small["metadata"]["annotations"] != large["metadata"]["annotations"]


def test_the_demo_fleet_has_every_kind_of_node_the_form_must_show() -> None:
    nodes = [node for pool in load(FLEET) for node in pool.nodes()]
    labels = [node["metadata"]["labels"] for node in nodes]
    gpus = {
        entry["nvidia.com/gpu.product"]: node["status"]["allocatable"]["nvidia.com/gpu"]
        for node, entry in zip(nodes, labels, strict=True)
        if "nvidia.com/gpu.product" in entry
    }
    assert (
        gpus.items()
        >= {
            "NVIDIA-A100-SXM4-80GB": "8",
            "NVIDIA-H100-80GB-HBM3": "8",
            "Tesla-V100-SXM2-16GB": "8",
            "Tesla-T4": "4",
        }.items()
    )
    assert "nvidia-tesla-k80" in {entry.get("cloud.google.com/gke-accelerator") for entry in labels}
    tainted = [node["metadata"]["name"] for node in nodes if node["spec"]["taints"]]
    assert tainted == ["l4-tainted-1", "mixed-models-1", "mig-invalid-1"]
    cpu = [node["status"]["allocatable"] for node in nodes if "nvidia.com/gpu" not in node["status"]["allocatable"]]
    assert [(each["cpu"], each["memory"]) for each in cpu] == [("16", "64Gi")] * 2
