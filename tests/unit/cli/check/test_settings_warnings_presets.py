"""Presets that no user can have, and overrides that KubeSpawner or the API server rejects."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.common.findings import Severity
from tests.unit.cli_support import paths, section, told, written

IMAGES = "images: {a: {image: 'a:1', vendors: []}, b: {image: 'b:1', vendors: []}}"


def find(folder: Path, text: str) -> list[tuple[str, str]]:
    return sorted(paths(told(written(folder, section(text)))))


def find_messages(folder: Path, text: str) -> list[str]:
    return [each.message for each in told(written(folder, section(text)))]


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("{node_selectr: {}}", [("node_selectr", "unknown_key")]),
        ("{start_timeout: soon}", [("start_timeout", "wrong_type")]),
        ("{tolerations: [gpu]}", [("tolerations", "bad_value")]),
        ("{environment: {A: '{nope}'}}", [("environment", "bad_value")]),
        ("{mem_limit: 4G}", [("mem_limit", "conflict")]),
        ("{environment: {A: '{username}', B: null}, node_selector: {a: null}}", []),
    ],
    ids=["unknown", "type", "pod", "template", "decided", "fine"],
)
def test_an_override_that_kubespawner_rejects_is_an_error(tmp_path: Path, override: str, found: list[tuple[str, str]]):
    below = "images.lab.kubespawner_override."
    values = written(tmp_path, section(f"images: {{lab: {{image: a, kubespawner_override: {override}}}}}"))
    assert [(f"{below}{name}", code) for name, code in found] == paths(told(values))
    assert all(each.severity is Severity.ERROR and each.place is not None for each in told(values))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("presets: {a: {memory: 32G}}\npolicy: {default: {memory: {max: 16G}}}", ["presets.a"]),
        (
            "presets: {a: {memory: 32G}}\n"
            "policy: {default: {memory: {max: 16G}}, groups: {staff: {memory: {max: 64G}}}}",
            [],
        ),
        (
            "presets: {a: {memory: 32G}}\npolicy: {default: {memory: {max: 16G}}, users: {ada: {memory: {max: 64G}}}}",
            [],
        ),
        ("presets: {a: {memory: 32G, allowed_groups: [staff]}}", []),
        ("presets: {a: {memory: 32G, allowed_users: [ada]}}", []),
        (
            "presets: {a: {memory: 32G, allowed_groups: [staff]}}\n"
            "policy: {default: {memory: {max: 16G}}, groups: {staff: {deny: true, memory: {max: 8G}}}}",
            ["presets.a"],
        ),
        (
            f"{IMAGES[:-1]}, c: {{image: 'c:1', vendors: [], allowed_groups: [x]}}}}\n"
            "presets: {a: {memory: 1G, image: c, allowed_users: [ada]}}",
            [],
        ),
    ],
    ids=["denied", "group", "user", "own_group", "own_user", "deny", "two_lists"],
)
def test_a_preset_that_no_user_can_have_is_reported(tmp_path: Path, text: str, found: list[str]):
    memory = "memory: {min: 1G, max: 64G}\n"
    assert [(path, "no_user") for path in found] == find(tmp_path, memory + text)


def test_the_reason_why_no_user_can_have_a_preset_is_reported(tmp_path: Path):
    text = "presets: {a: {memory: 32G}}\npolicy: {default: {memory: {max: 16G}}}"
    (message,) = find_messages(tmp_path, text)
    start, _, denial = message.partition(". ")
    assert start == "is allowed to no group and no user"
    assert denial.startswith("Users who choose it read: You may ")
    assert "16 GiB" in denial


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("{node_selector: {pool: 'a b'}}", ["node_selector.pool"]),
        ("{node_selector: {pool: '{username}'}}", ["node_selector.pool"]),
        ("{extra_labels: {owner: '{username}', team: x}}", []),
        ("{image_pull_policy: Sometimes}", ["image_pull_policy"]),
        ("{tolerations: [{key: a, operator: In}]}", ["tolerations.0.operator"]),
        ("{tolerations: [{key: a, operator: Exists, value: b}]}", ["tolerations.0.value"]),
        ("{tolerations: [{value: b, effect: Never}]}", ["tolerations.0.effect", "tolerations.0.key"]),
        ("{tolerations: {x: {key: a, effect: Never}}}", ["tolerations.x.effect"]),
        ("{tolerations: [{operator: Exists}, {key: a, value: b, effect: NoSchedule}]}", []),
    ],
    ids=["label", "template", "expanded", "pull", "operator", "value", "two", "mapping", "fine"],
)
def test_values_that_the_api_server_refuses_are_reported(tmp_path: Path, override: str, found: list[str]):
    text = f"images: {{lab: {{image: a, kubespawner_override: {override}}}}}"
    assert [(f"images.lab.kubespawner_override.{path}", "doubtful") for path in found] == find(tmp_path, text)
