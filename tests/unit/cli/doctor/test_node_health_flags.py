from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpuspawner.cli.doctor.choices import check_any_gpu
from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.node_health import check_hub_flags, check_plugins_exist
from gpuspawner.core.cluster.model import Taint
from tests.unit.cli.doctor.cases import GPU, PRODUCT, T4, codes, facts, gpu_type, node

TAINT = (Taint(key="team", value="x", effect="NoSchedule"),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gpus": 0}, ("fault", "device-plugin-missing")),
        ({"allocatable": {GPU: 3}}, ("fault", "gpu-unhealthy")),
        ({"labels": {**T4, "nvidia.com/gpu.count": "2"}}, ("warning", "gpu-labels-contradict")),
        ({"labels": {PRODUCT: "T4-MIG-INVALID"}, "gpus": 0}, ("fault", "mig-invalid")),
        ({"taints": TAINT}, ("warning", "taint-untolerated")),
        ({"uncounted": frozenset({GPU}), "gpus": 0}, ("warning", "devices-uncounted")),
    ],
)
def test_concerns_of_nodes_name_them(changes: dict[str, Any], expected: tuple[str, str]):
    assert codes(check_hub_flags, facts(node("x", **changes))) == [(*expected, ("x",))]


SLICE = {
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "x",
        "pool": {"name": "x", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"productName": {"string": "NVIDIA H100"}}}],
    }
}


@pytest.mark.parametrize(
    "labels", [{}, {"nvidia.com/gpu.present": "true"}, {"kubernetes.azure.com/accelerator": "nvidia"}]
)
def test_a_node_with_devices_of_a_dra_driver_needs_a_device_class_and_no_plugin(labels: dict[str, str]):
    seen = facts(node("x", gpus=0, labels=labels), read={ObjectKind.RESOURCE_SLICES: [SLICE]})
    (found,) = check_hub_flags(seen)
    assert (found.severity.value, found.code, found.objects) == ("warning", "device-class-missing", ("x",))
    assert "1 device of the DRA driver gpu.nvidia.com (NVIDIA H100)" in found.what
    assert "extendedResourceName" in found.fix
    assert [*check_plugins_exist(seen), *check_any_gpu(seen)] == []


def test_types_that_are_not_offered_presets_and_rules_are_reported():
    settings = {
        "discover_gpus": False,
        "gpus": {"l4": gpu_type(match={PRODUCT: "L4"})},
        "presets": {"gone": {"display_name": "Gone", "gpu": "h100"}},
        "policy": {"default": {"gpus": ["h100"]}},
    }
    assert codes(check_hub_flags, facts(settings={**settings, "discover_gpus": True})) == [
        ("fault", "preset-invalid", ("gone",)),
        ("warning", "policy-type-unknown", ("policy.default.gpus",)),
    ]
    del settings["presets"], settings["policy"]
    assert codes(check_hub_flags, facts(settings=settings)) == [("warning", "gpu-not-offered", ("n",))]


def test_gpus_that_are_dropped_from_every_server_are_reported():
    seen = facts()
    seen = replace(seen, catalog=replace(seen.catalog, dropped_gpus={"amd.com/gpu": 1}))
    assert codes(check_hub_flags, seen) == [("warning", "gpu-dropped", ("extra_resource_limits",))]


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, ("singleuser", "extraTolerations")),
        ({"gpus": {"t": gpu_type()}}, ("hub", "config", "GPUSpawner", "gpus", "t")),
    ],
)
def test_values_that_tolerate_the_taint_are_offered(settings: dict[str, Any], place: tuple[str, ...]):
    (found,) = check_hub_flags(facts(node(taints=TAINT), settings=settings))
    values: Any = yaml.safe_load(found.fix)
    for key in place:
        values = values[key]
    told = values["tolerations"] if isinstance(values, dict) else values
    assert told[-1] == {"key": "team", "operator": "Equal", "value": "x", "effect": "NoSchedule"}


def test_braces_of_json_come_through():
    (found,) = check_hub_flags(facts(node(labels={PRODUCT: "T4-MIG-INVALID"}, gpus=0)))
    assert """-p '{"spec": {"mig": {"strategy": "mixed"}}}'""" in found.fix
