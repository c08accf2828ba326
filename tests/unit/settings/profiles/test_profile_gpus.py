from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.settings.profiles.notes import SEVERAL_ACCELERATORS, NoteList
from gpuspawner.settings.profiles.overrides import tells_gpu
from gpuspawner.settings.profiles.profile_gpus import ProfileGPUs, make_unique_slug

GKE = "cloud.google.com/gke-accelerator"
TYPE = "node.kubernetes.io/instance-type"


@pytest.fixture
def gpus(notes: NoteList) -> ProfileGPUs:
    return ProfileGPUs(notes)


def test_without_accelerators_there_is_no_type(gpus: ProfileGPUs):
    assert (gpus.find({"nvidia.com/gpu": 0}, {TYPE: "g4dn.xlarge"}, profile="P"), gpus.types) == ({}, {})


@pytest.mark.parametrize(
    ("resource", "labels", "slug", "expected"),
    [
        pytest.param(
            "nvidia.com/gpu",
            {GKE: "nvidia-tesla-t4", "topology.kubernetes.io/zone": "a"},
            "t4",
            {"display_name": "T4", "match": {GKE: "nvidia-tesla-t4"}},
            id="known model",
        ),
        pytest.param(
            "nvidia.com/gpu",
            {TYPE: "g4dn.xlarge"},
            "gpu-g4dn.xlarge",
            {"display_name": "GPU (g4dn.xlarge)", "match": {TYPE: "g4dn.xlarge"}},
            id="instance type",
        ),
        pytest.param("nvidia.com/gpu", {}, "gpu", {"display_name": "nvidia.com/gpu"}, id="any node"),
        pytest.param(
            "nvidia.com/mig-1g.5gb",
            {GKE: "nvidia-tesla-a100"},
            "mig-1g.5gb-nvidia-tesla-a100",
            {"display_name": "MIG 1g.5gb (nvidia-tesla-a100)", "match": {GKE: "nvidia-tesla-a100"}},
            id="MIG",
        ),
        pytest.param(
            "google.com/tpu", {}, "tpu", {"display_name": "google.com/tpu", "vendor": "other"}, id="other vendor"
        ),
    ],
)
def test_a_type_is_named_after_its_nodes(
    gpus: ProfileGPUs, resource: str, labels: dict[str, object], slug: str, expected: Any
):
    assert gpus.find({resource: 2}, labels, profile="P") == {"gpu": slug, "gpu_count": 2}
    assert gpus.types == {slug: {"resource": resource, "tolerations": [], "max_count": 2, **expected}}


def test_profiles_share_a_type_of_the_same_nodes(gpus: ProfileGPUs):
    found = [gpus.find({"nvidia.com/gpu": count}, {TYPE: "p3"}, profile="P") for count in (1, 4, 2)]
    assert [each["gpu_count"] for each in found] == [1, 4, 2]
    assert {slug: each["max_count"] for slug, each in gpus.types.items()} == {"gpu-p3": 4}


def test_other_nodes_are_another_type_with_another_name(gpus: ProfileGPUs):
    for kind in ("n1", "n2"):
        gpus.find({"nvidia.com/gpu": 1}, {GKE: "nvidia-tesla-t4", TYPE: kind}, profile="P")
    assert [each["display_name"] for each in gpus.types.values()] == ["T4", "T4 2"]
    assert list(gpus.types) == ["t4", "t4-2"]


def test_several_kinds_at_once_are_refused(gpus: ProfileGPUs, notes: NoteList):
    assert gpus.find({"google.com/tpu": 1, "nvidia.com/gpu": 1}, {}, profile="P") == {"gpu": "gpu", "gpu_count": 1}
    assert [(each.cause, each.detail) for each in notes.notes] == [
        (SEVERAL_ACCELERATORS, "google.com/tpu, nvidia.com/gpu")
    ]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(TYPE, "g4dn.xlarge", True, id="instance type"),
        pytest.param("pool", "gpu", True, id="own label"),
        pytest.param("topology.kubernetes.io/zone", "a", False, id="zone"),
        pytest.param("topology.gke.io/zone", "a", False, id="GKE's zone"),
        pytest.param("kubernetes.io/arch", "arm64", False, id="architecture"),
        pytest.param("hub.jupyter.org/node-purpose", "user", False, id="purpose"),
        pytest.param("pool", None, False, id="removed"),
        pytest.param("pool", "no label value!", False, id="bad value"),
        pytest.param("no key!", "x", False, id="bad key"),
        pytest.param("pool", True, False, id="no text"),
    ],
)
def test_labels_that_tell_gpus(key: object, value: object, expected: bool):
    assert tells_gpu(key, value) is expected


@pytest.mark.parametrize(
    ("text", "taken", "has_underscores", "expected"),
    [
        pytest.param("GPU Server, big", [], False, "gpu-server-big", id="words"),
        pytest.param("mem_2_gb", [], True, "mem_2_gb", id="underscores"),
        pytest.param("mem_2_gb", [], False, "mem-2-gb", id="no underscores"),
        pytest.param("__x__", [], True, "x", id="underscores at the ends"),
        pytest.param("大", [], False, "x", id="fallback"),
        pytest.param("a", ["a", "a-2"], False, "a-3", id="taken"),
        pytest.param("a" * 80, ["a" * 63], False, "a" * 61 + "-2", id="long"),
    ],
)
def test_slugs_are_unique(text: str, taken: list[str], has_underscores: bool, expected: str):
    assert make_unique_slug(text, taken, fallback="x", has_underscores=has_underscores) == expected
