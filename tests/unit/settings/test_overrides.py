"""Traits of KubeSpawner that images and GPU types override: what they may set, and what the hub gets of them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.request.pod_requirements import place
from gpuspawner.core.request.selection import validate
from gpuspawner.settings import Settings, merge_values

T4 = {"resource": "nvidia.com/gpu", "match": {"nvidia.com/gpu.product": "Tesla-T4"}}
BASE: dict[str, Any] = {
    "discover_gpus": False,
    "images": {"torch": {"image": "torch:1"}, "r": {"image": "r:1"}},
    "gpus": {"t4": {**T4, "max_count": 2}},
}


def problems(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        Settings.parse(merge_values(BASE, raw))
    return {problem.field: problem.message for problem in caught.value.problems}


def assemble(raw: dict[str, Any]) -> Catalog:
    settings = Settings.parse(merge_values(BASE, raw))
    return assemble_catalog(settings.configured, Inventory(), table=settings.table, fallback_image="")


def overrides_of(raw: dict[str, Any]) -> tuple[Any, ...]:
    """Return the values of traits that a server with the image torch and a T4 gets."""
    catalog = assemble(raw)
    return place(validate({"image": "torch", "gpu": "t4"}, catalog), catalog).overrides


def of_image(override: dict[str, Any]) -> dict[str, Any]:
    return {"images": {"torch": {"kubespawner_override": override}}}


def of_type(override: dict[str, Any]) -> dict[str, Any]:
    return {"gpus": {"t4": {"kubespawner_override": override}}}


OVERRIDE = {
    "node_selector": {"pool": "a", "other": None},
    "environment": {"A": "1"},
    "default_url": None,
    "extra_pod_config": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        }
    },
}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({}, (), id="none"),
        pytest.param(of_image(OVERRIDE), (OVERRIDE,), id="image"),
        pytest.param(of_type(OVERRIDE), (OVERRIDE,), id="GPU type"),
        pytest.param({**of_image({"uid": 1}), **of_type({"uid": 2})}, ({"uid": 1}, {"uid": 2}), id="both"),
    ],
)
def test_overrides_stay_as_written_and_the_gpu_types_lies_above_the_images(
    raw: dict[str, Any], expected: tuple[Any, ...]
):
    assert overrides_of(raw) == expected


@pytest.mark.parametrize(
    ("of_image_s", "of_type_s", "seconds"),
    [(60, None, 900), (60, 1000, 1000), (1200, 1000, 1200), (None, 60, 900), ("1200", True, 900), (1.5, None, 900)],
    ids=["short image", "type over image", "long image", "short type", "no number", "fraction"],
)
def test_a_start_timeout_of_an_override_never_shortens_the_wait(of_image_s: Any, of_type_s: Any, seconds: int):
    written = merge_values(of_image({"start_timeout": of_image_s}), of_type({"start_timeout": of_type_s}))
    catalog = assemble(merge_values(written, {"gpus": {"t4": {"start_timeout": 900}}}))
    assert place(validate({"image": "torch", "gpu": "t4"}, catalog), catalog).start_timeout_s == seconds


@pytest.mark.parametrize(
    ("override", "path", "message"),
    [
        ({"image": "x"}, "image", "must be left out: the field image sets it"),
        ({"image_spec": "x"}, "image_spec", "must be left out: the field image sets it"),
        ({"cpu_limit": 4}, "cpu_limit", "must be left out: the field cpu sets it"),
        ({"cpu_guarantee": 4}, "cpu_guarantee", "must be left out: the field cpu sets it"),
        ({"mem_limit": "4G"}, "mem_limit", "must be left out: the field memory sets it"),
        ({"mem_guarantee": None}, "mem_guarantee", "must be left out: the field memory sets it"),
        ({"profile_list": []}, "profile_list", "must be left out: it must be the same for all servers"),
        ({"namespace": "x"}, "namespace", "must be left out: it must be the same for all servers"),
        ({"policy": {}}, "policy", "must be left out: it must be the same for all servers"),
        ({"settings_files": []}, "settings_files", "must be left out: it must be the same for all servers"),
        (
            {"extra_resource_limits": {"nvidia.com/gpu": 1}},
            "extra_resource_limits.nvidia.com/gpu",
            "must be left out: the fields gpu and gpu_count set 'nvidia.com/gpu'",
        ),
        (
            {"extra_resource_guarantees": {"google.com/tpu": 4}},
            "extra_resource_guarantees.google.com/tpu",
            "must be left out: the fields gpu and gpu_count set 'google.com/tpu'",
        ),
        (
            {"extra_resource_limits": {"memory": "4Gi"}},
            "extra_resource_limits.memory",
            "must be left out: the field memory sets it",
        ),
        (
            {"extra_container_config": {"image": "x"}},
            "extra_container_config.image",
            "must be left out: the field image sets it",
        ),
        (
            {"extra_container_config": {"resources": {"limits": {"amd.com/gpu": "1"}}}},
            "extra_container_config.resources.limits.amd.com/gpu",
            "must be left out: the fields gpu and gpu_count set 'amd.com/gpu'",
        ),
        (
            {"extra_pod_config": {"containers": [{"name": "a"}]}},
            "extra_pod_config.containers",
            "must be left out: use extra_container_config or extra_containers",
        ),
    ],
)
@pytest.mark.parametrize(
    ("write", "place_"), [(of_image, "images.torch"), (of_type, "gpus.t4")], ids=["image", "GPU type"]
)
def test_an_override_sets_nothing_that_the_choice_decides(
    override: dict[str, Any], path: str, message: str, write: Any, place_: str
):
    tpu = {"gpus": {"tpu": {"resource": "google.com/tpu", "vendor": "other"}}}
    assert problems(merge_values(tpu, write(override))) == {f"{place_}.kubespawner_override.{path}": message}


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ({"priority_class_name": "high"}, "priority_class_name"),
        ({"extra_pod_config": {"priorityClassName": "high"}}, "extra_pod_config.priorityClassName"),
        ({"extra_pod_config": {"priority_class_name": "high"}}, "extra_pod_config.priority_class_name"),
    ],
    ids=["trait", "pod", "pod, as in Python"],
)
def test_an_override_sets_no_priority_where_users_pick_one(override: dict[str, Any], path: str):
    raw, low = of_image(override), {"class": "low", "value": -10}
    assert overrides_of(raw) == (override,)
    assert overrides_of({**raw, "priorities": {"low": {**low, "enabled": False}}}) == (override,)
    message = "must be left out: the field priority sets it"
    assert problems({**raw, "priorities": {"low": low}}) == {f"images.torch.kubespawner_override.{path}": message}


@pytest.mark.parametrize(
    "override",
    [
        {"extra_resource_limits": {"google.com/tpu": 4, "rdma/hca": 1}},
        {"extra_resource_limits": None, "extra_container_config": {"resources": None}},
        {"extra_container_config": {"securityContext": {"privileged": False}}},
        {"extra_pod_config": {"hostNetwork": True, "initContainers": []}},
    ],
    ids=["resources that are no GPU type", "nulls", "a container", "a pod"],
)
def test_everything_else_can_be_overridden(override: dict[str, Any]):
    assert overrides_of(of_image(override)) == (override,)


def test_an_entry_that_is_taken_out_overrides_nothing():
    raw = merge_values(of_image({"image": "x"}), {"images": {"torch": {"enabled": False}}})
    assert list(assemble(raw).images) == ["r"]


@pytest.mark.parametrize(
    ("own", "member", "expected"),
    [
        ({}, {}, {}),
        ({"uid": 1}, {"uid": 2}, {"uid": 1}),
        ({}, {"uid": 2}, {"uid": 2}),
    ],
    ids=["none", "its own", "that of its types"],
)
def test_a_combined_type_has_its_own_override_or_that_of_its_types(own: Any, member: Any, expected: Any):
    gpus = {
        "t4": {"kubespawner_override": member},
        "l4": {**T4, "kubespawner_override": member},
        "any": {"any_of": ["t4", "l4"], "kubespawner_override": own},
    }
    assert assemble({"gpus": gpus}).gpus["any"].overrides == expected


@pytest.mark.parametrize(
    ("combined", "discovers"),
    [
        ({"any_of": ["t4", "l4"]}, False),
        ({"any_of": ["t4", "found"]}, True),
        ({"any_of": ["found", "t4"]}, True),
        ({"resource": "nvidia.com/gpu", "min_memory": "8Gi"}, False),
    ],
    ids=["any_of", "with a discovered type", "after a discovered type", "min_memory"],
)
def test_types_with_different_overrides_need_one_for_all(combined: dict[str, Any], discovers: bool):
    t4 = {"memory": "16Gi", "kubespawner_override": {"uid": 1}}
    gpus = {"t4": t4, "l4": {**T4, "memory": "24Gi"}, "any": combined}
    assert problems({"gpus": gpus, "discover_gpus": discovers}) == {
        "gpus.any.kubespawner_override": "is required, because its types have different ones"
    }


def test_a_type_with_less_memory_may_have_another_override():
    gpus = {
        "t4": {**T4, "memory": "16Gi", "kubespawner_override": {"uid": 1}},
        "l4": {**T4, "memory": "24Gi"},
        "any": {"resource": "nvidia.com/gpu", "min_memory": "20Gi"},
    }
    assert [member.slug for member in assemble({"gpus": gpus}).gpus["any"].members] == ["l4"]
