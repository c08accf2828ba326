from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.settings.profiles.notes import (
    CONTAINER_GPUS,
    CONTAINER_RESOURCES,
    CPU_ROUNDED,
    HUB_WIDE,
    NEVER_STARTED,
    NO_TRAIT,
    NOT_CONFIGURABLE,
    NoteList,
)
from gpuspawner.settings.profiles.overrides import (
    UNSET_AMOUNT,
    Amount,
    OverrideParts,
    OverrideSplitter,
    SpawnerTraits,
    read_amount,
    split_resources,
)

GIB = 1024**3


@pytest.fixture
def splitter(traits: SpawnerTraits, notes: NoteList) -> OverrideSplitter:
    return OverrideSplitter(traits, notes)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param("cpu", None, UNSET_AMOUNT, id="no CPU limit"),
        pytest.param("cpu", 0, UNSET_AMOUNT, id="0 CPUs"),
        pytest.param("cpu", 2, Amount(2000, 2), id="whole CPUs"),
        pytest.param("cpu", 0.5, Amount(500, 0.5), id="half a CPU"),
        pytest.param("cpu", 0.1176765625, Amount(118, 0.118), id="finer than a millicore"),
        pytest.param("memory", "4G", Amount(4 * GIB, "4G"), id="text"),
        pytest.param("memory", "462.196G", Amount(int(462.196 * GIB), "462.196G"), id="fraction"),
        pytest.param("memory", 1951419879, Amount(1951419879, 1951419879), id="bytes"),
        pytest.param("memory", 1.5e9, Amount(1500000000, 1500000000), id="float"),
        pytest.param("memory", "0G", UNSET_AMOUNT, id="0G"),
    ],
)
def test_amounts_are_read_as_kubespawner_reads_them(key: str, value: object, expected: Amount):
    assert read_amount(key, value) == expected


def test_an_override_is_split(splitter: OverrideSplitter, notes: NoteList):
    override = {
        "image": "q/x:1",
        "cpu_limit": None,
        "mem_guarantee": "1G",
        "extra_resource_limits": {"nvidia.com/gpu": "1", "rdma/hca": 2},
        "extra_resource_guarantees": {"nvidia.com/gpu": "1"},
        "node_selector": {"pool": "a"},
        "environment": {"A": "b", "NVIDIA_VISIBLE_DEVICES": "all"},
        "tolerations": [{"key": "k"}],
    }
    assert splitter.split(override, profile="P") == OverrideParts(
        image="q/x:1",
        amounts={"cpu_limit": UNSET_AMOUNT, "mem_guarantee": Amount(GIB, "1G")},
        accelerators={"nvidia.com/gpu": 1},
        requested={"nvidia.com/gpu": 1},
        labels={"pool": "a"},
        variables={"NVIDIA_VISIBLE_DEVICES": "all"},
        rest={
            "extra_resource_limits": {"rdma/hca": 2},
            "node_selector": {"pool": "a"},
            "environment": {"A": "b"},
            "tolerations": [{"key": "k"}],
        },
    )
    assert notes.notes == ()


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"nvidia.com/gpu": "2"}, ({"nvidia.com/gpu": 2}, {}), id="text"),
        pytest.param({"nvidia.com/gpu": None}, ({"nvidia.com/gpu": 0}, {}), id="removed"),
        pytest.param({"nvidia.com/mig-1g.5gb": 1}, ({"nvidia.com/mig-1g.5gb": 1}, {}), id="MIG"),
        pytest.param({"google.com/tpu": 8}, ({"google.com/tpu": 8}, {}), id="TPU"),
        pytest.param({"aws.amazon.com/neuroncore": 2}, ({"aws.amazon.com/neuroncore": 2}, {}), id="Neuron"),
        pytest.param({"habana.ai/gaudi": 1}, ({"habana.ai/gaudi": 1}, {}), id="Gaudi"),
        pytest.param({"nvidia.com/gpumem": 3000}, ({}, {"nvidia.com/gpumem": 3000}), id="memory of a GPU"),
        pytest.param({"ephemeral-storage": "1Gi"}, ({}, {"ephemeral-storage": "1Gi"}), id="storage"),
        pytest.param({"google.com/tpu": 4096}, ({}, {"google.com/tpu": 4096}), id="more than a type may have"),
    ],
)
def test_accelerators_are_distinguished_from_other_resources(resources: Any, expected: Any):
    assert split_resources(resources) == expected


@pytest.mark.parametrize(
    ("override", "cause", "field"),
    [
        pytest.param({"storage_class": "x"}, NO_TRAIT, "storage_class", id="no trait"),
        pytest.param({"pod_name": "x"}, NOT_CONFIGURABLE, "pod_name", id="internal"),
        pytest.param({"namespace": "x"}, HUB_WIDE, "namespace", id="hub-wide"),
        pytest.param({"cpu_limit": 0.0005}, CPU_ROUNDED, "cpu_limit", id="rounded"),
        pytest.param(
            {"extra_container_config": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
            CONTAINER_GPUS,
            "extra_container_config",
            id="container's GPUs",
        ),
        pytest.param(
            {"extra_container_config": {"resources": {"limits": {"cpu": 1}}}},
            CONTAINER_RESOURCES,
            "extra_container_config.resources",
            id="container's resources",
        ),
    ],
)
def test_changed_values_are_noted(splitter: OverrideSplitter, notes: NoteList, override: Any, cause: Any, field: str):
    assert splitter.split(override, profile="P") is not None
    assert [(each.cause, each.profile, each.field) for each in notes.notes] == [(cause, "P", field)]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        pytest.param({"resources": {"limits": {"nvidia.com/gpu": 1}}}, {}, id="GPUs"),
        pytest.param({"resources": {"limits": {"nvidia.com/gpu": 1, "x.org/y": 1}}}, {}, id="GPUs and others"),
        pytest.param({"resources": {"requests": {"cpu": 1}}}, {}, id="CPUs"),
        pytest.param({"resources": {"limits": {"cpu": 1}}, "tty": True}, {"tty": True}, id="other fields"),
    ],
)
def test_resources_of_the_container_are_dropped(splitter: OverrideSplitter, override: Any, expected: Any):
    parts = splitter.split({"extra_container_config": override}, profile="P")
    assert parts is not None
    assert parts.rest.get("extra_container_config", {}) == expected


def test_deprecated_names_of_traits_are_read(splitter: OverrideSplitter):
    assert splitter.split({"image_spec": "q/x:1"}, profile="P") == OverrideParts(image="q/x:1")


@pytest.mark.parametrize(
    "override",
    [
        pytest.param({"default_url": 1}, id="refused by the trait"),
        pytest.param({"image": "q/{username}"}, id="no image"),
        pytest.param({"cpu_limit": -1}, id="negative CPUs"),
        pytest.param({"mem_limit": -1}, id="negative memory"),
        pytest.param({"mem_limit": 2**70}, id="more memory than Kubernetes knows"),
        pytest.param({"extra_resource_limits": {"nvidia.com/gpu": 0.5}}, id="half a GPU"),
        pytest.param({"extra_resource_limits": {"nvidia.com/gpu": "one"}}, id="no number"),
    ],
)
def test_what_never_started_has_no_parts(splitter: OverrideSplitter, notes: NoteList, override: Any):
    assert splitter.split(override, profile="P") is None
    assert [(each.cause, each.field) for each in notes.notes] == [(NEVER_STARTED, next(iter(override)))]
