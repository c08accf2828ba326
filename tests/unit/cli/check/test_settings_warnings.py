from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpuspawner.cli.check.settings_warnings import find_unknown_slugs, find_unpullable_images
from gpuspawner.settings import Settings


def told(text: str) -> list[tuple[str, str]]:
    raw: Any = yaml.safe_load(text)
    return [(problem.field, problem.message) for problem in find_unknown_slugs(Settings.parse(raw).model)]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("policy: {default: {gpus: [a101]}}", ["policy.default.gpus.a101"]),
        ("policy: {groups: {g: {gpus: {a101: {}}}}, users: {u: {gpus: [b101]}}}",
         ["policy.groups.g.gpus.a101", "policy.users.u.gpus.b101"]),
        ("pools: {p: {groups: [g], gpus: [t4, a101], max_gpus: 1}}", ["pools.p.gpus.1"]),
        ("queue: {local_queue: q, gpus: [a101]}", ["queue.gpus.0"]),
        ("presets: {p: {gpu: a101}}", ["presets.p.gpu"]),
        ("gpus: {u: {any_of: [t4, a101]}}", ["gpus.u.any_of.1"]),
        ("gpus: {a101: {resource: nvidia.com/gpu}}\npresets: {p: {gpu: a101}}", []),
        ("policy: {default: {gpus: '*'}}", []),
        ("policy: {default: {gpus: [a100-40gb, a100-40gb-mig-1g.5gb, t4-shared, nvidia-gpu]}}", []),
        ("accelerators: {gx9: {name: G, vendor: nvidia, labels: {gfd: [G]}}}\npresets: {p: {gpu: gx9}}", []),
    ],
)  # fmt: skip
def test_a_type_that_nothing_defines_is_reported(text: str, fields: list[str]):
    assert [field for field, _ in told(text)] == fields


def test_the_nearest_one_is_named():
    ((_, message),) = told("presets: {p: {gpu: a100-400gb}}")
    assert message.endswith("Did you mean 'a100-40gb'?")


def test_an_image_that_no_node_could_pull_is_reported():
    images = {"a": {"image": "https://quay.io/a/b:1"}, "b": {"image": "quay.io/a/b:1"}}
    model = Settings.parse({"images": images}).model
    assert [(problem.field, problem.code) for problem in find_unpullable_images(model)] == [
        ("images.a.image", "doubtful")
    ]
