from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpuspawner.settings.models import SETTINGS, SettingsModel
from gpuspawner.settings.validation_errors import explain_validation_errors


def messages(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        SETTINGS.validate_python(raw)
    return {
        problem.field: problem.message for problem in explain_validation_errors(caught.value.errors(), SettingsModel)
    }


def gpu(**keys: Any) -> dict[str, Any]:
    return {"gpus": {"resource": {"resource": "nvidia.com/gpu", **keys}}}


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        ({"imges": {}}, "imges", "there is no such key. Did you mean 'images'?"),
        (
            {"zzz": {}},
            "zzz",
            "there is no such key. Keys here: images, custom_images, cpu, memory, run_time, shared_memory,"
            " priorities, gpus, presets, policy, pools, accelerators, discover_gpus, new_nodes, queue.",
        ),
        # The slug of the entry is a key of the entry as well: the place is found all the same.
        (gpu(toleration=[]), "gpus.resource.toleration", "there is no such key. Did you mean 'tolerations'?"),
        (
            gpu(tolerations=[{"keyy": "a"}]),
            "gpus.resource.tolerations.0.keyy",
            "there is no such key. Did you mean 'key'?",
        ),
        (
            gpu(scale_up={"max_node": 1, "gpus_per_node": 1, "minutes": 1, "max_nodes": 1}),
            "gpus.resource.scale_up.max_node",
            "there is no such key. Did you mean 'max_nodes'?",
        ),
        # What code sets is no key of the settings.
        (gpu(members=[]), "gpus.resource.members", "there is no such key. Did you mean 'memory'?"),
        (gpu(memory_bytes=1), "gpus.resource.memory_bytes", "there is no such key. Did you mean 'memory'?"),
        (
            {"images": {"i": {"image": "a" * 1001}}},
            "images.i.image",
            f"must have at most 1000 characters, not '{'a' * 39}…'",
        ),
        ({"cpu": {}}, "cpu.max", "is required"),
        (gpu(max_count=1.5), "gpus.resource.max_count", "must be a whole number, not 1.5"),
        (gpu(max_count=0), "gpus.resource.max_count", "must be at least 1, not 0"),
        (gpu(shm=2), "gpus.resource.shm", "must be at most 1.0, not 2"),
        (
            {"presets": {"resource": {"allowed_groups": []}}},
            "presets.resource.allowed_groups",
            "must have at least 1 entry, not a list",
        ),
        (gpu(display_name=""), "gpus.resource.display_name", "must not be empty, not ''"),
        (
            gpu(interconnect="NVLink and InfiniBand between eight of them"),
            "gpus.resource.interconnect",
            "must have at most 40 characters, not 'NVLink and InfiniBand between eight of …'",
        ),
        (gpu(unit="slice"), "gpus.resource.unit", "must be 'card', 'mig' or 'shared', not 'slice'"),
        (
            gpu(tolerations=[{"operator": "Exist"}]),
            "gpus.resource.tolerations.0.operator",
            "must be 'Exists' or 'Equal', not 'Exist'. Did you mean 'Exists'?",
        ),
        ({"images": {4: {}}}, "images.4", "the key must be a text, not 4"),
        (
            {"custom_images": {"allowed": True, "registries": ["quay.io", "https://ghcr.io"]}},
            "custom_images.registries.1",
            "must be a registry or the beginning of names in one, such as ghcr.io or quay.io/jupyter, not"
            " 'https://ghcr.io'",
        ),
        ({"custom_images": {"allow": True}}, "custom_images.allow", "there is no such key. Did you mean 'allowed'?"),
        ({"cpu": {"max": "x"}}, "cpu.max", "must be a number of CPUs, such as 0.5 or 4, not 'x'"),
    ],
)
def test_an_error_says_what_to_do(raw: dict[str, Any], path: str, message: str):
    assert messages(raw) == {path: message}


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        (gpu(resource="gpu"), "gpus.resource.resource", "must be VENDOR/RESOURCE, such as nvidia.com/gpu, not 'gpu'"),
        (
            gpu(environment={"A-B": "1"}),
            "gpus.resource.environment.A-B",
            "the key must be the name of an environment variable: letters, digits and _, such as NCCL_DEBUG, not 'A-B'",
        ),
        (
            gpu(runtime_class="Not A Name"),
            "gpus.resource.runtime_class",
            "must be the name of an object in Kubernetes: lower-case letters, digits, - and ., such as my-name, "
            "not 'Not A Name'",
        ),
    ],
)
def test_a_text_that_does_not_match_is_told_the_rule_and_no_expression(raw: dict[str, Any], path: str, message: str):
    assert messages(raw) == {path: message}
