"""Presets that no user can have, whose overrides are replaced, or that leave settings without effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.common.findings import Severity
from tests.unit.cli_support import paths, section, told, written

T4 = "gpus: {t4: {resource: nvidia.com/gpu, max_count: 1, match: {gpu: [t4]}"
IMAGES = "images: {a: {image: 'a:1', vendors: []}, b: {image: 'b:1', vendors: []}}"
SIZES = "small: {memory: 4G, default: true}, large: {memory: 16G"


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
    below = "presets.small.kubespawner_override."
    values = written(tmp_path, section(f"presets: {{small: {{kubespawner_override: {override}}}}}"))
    assert [(f"{below}{name}", code) for name, code in found] == paths(told(values))
    assert all(each.severity is Severity.ERROR and each.place is not None for each in told(values))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("presets: {a: {cpu: 0.12345}}", [("presets.a.cpu", "rounded")]),
        ("presets: {a: {cpu: 2, cpu_guarantee: 0.0001}}", [("presets.a.cpu_guarantee", "rounded")]),
        ("presets: {a: {cpu: unlimited, cpu_guarantee: 0.125}}", []),
        ("presets: {a: {enabled: false, cpu: 0.12345}}", [("presets.a.cpu", "rounded")]),
        (
            "presets: {a: {choices: {size: {entries: {s: {cpu: 1.23456}, l: {cpu: 2}}}}}}",
            [("presets.a.choices.size.entries.s.cpu", "rounded")],
        ),
    ],
    ids=["limit", "guarantee", "exact", "disabled", "entry"],
)
def test_amounts_that_no_pod_has_are_reported(tmp_path: Path, text: str, found: list[tuple[str, str]]):
    assert found == find(tmp_path, text)


def test_the_rounded_amount_is_shown(tmp_path: Path):
    (message,) = find_messages(tmp_path, "presets: {a: {cpu: 0.12345}}")
    assert message == "is rounded up to 124m: Kubernetes knows no less than a thousandth of a CPU"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("presets: {a: {memory: 32G}}\npolicy: {default: {memory: {max: 16G}}}", ["presets.a"]),
        ("presets: {a: {memory: unlimited}}\npolicy: {default: {memory: {max: 16G}}}", ["presets.a"]),
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
        (
            f"presets: {{a: {{memory: 1G, choices: {{size: {{entries: {{{SIZES}}}}}}}}}}}}}\n"
            "policy: {default: {memory: {max: 8G}}}",
            ["presets.a.choices.size.entries.large"],
        ),
        (
            f"presets: {{a: {{memory: 1G, choices: {{size: {{entries: {{{SIZES}, allowed_groups: [staff]}}}}}}}}}}}}",
            [],
        ),
        (
            f"presets: {{a: {{memory: 1G, choices: {{size: {{entries: {{{SIZES}}}}}}}}}}}}}\n"
            "policy: {default: {memory: {max: 1G}}}",
            ["presets.a"],
        ),
        (
            "presets: {a: {memory: 1G, choices: {image: {custom_image: {pattern: '^a/'}}}}, "
            "b: {memory: 1G, allowed_groups: [x]}}",
            [],
        ),
    ],
    ids=[
        "denied", "unlimited", "group", "user", "own_group", "own_user", "deny", "two_lists", "entry", "entry_group",
        "all_entries", "named_image",
    ],
)  # fmt: skip
def test_a_preset_that_no_user_can_have_is_reported(tmp_path: Path, text: str, found: list[str]):
    memory = "memory: {min: 1G, max: 64G}\n"
    assert [(path, "no_user") for path in found] == find(tmp_path, memory + text)


def test_the_reason_why_no_user_can_have_a_preset_is_reported(tmp_path: Path):
    text = "presets: {a: {memory: 32G, cpu: unlimited}}\npolicy: {default: {memory: {max: 16G}}}"
    (message,) = find_messages(tmp_path, text)
    start, _, denial = message.partition(". ")
    assert start == "is allowed to no group and no user"
    assert denial.startswith("Users who choose it read: You may ")
    assert "16 GiB" in denial


@pytest.mark.parametrize(
    ("image", "gpu", "preset", "found"),
    [
        ("{start_timeout: 60}", "{}", "{start_timeout: 90}", ["presets.p.kubespawner_override.start_timeout"]),
        ("{start_timeout: 60}", "{}", "{start_timeout: 60}", []),
        ("{start_timeout: 60}", "{start_timeout: 90}", "{}", ["gpus.t4.kubespawner_override.start_timeout"]),
        (
            "{environment: {A: '1', B: '2'}}",
            "{environment: {C: '3'}}",
            "{environment: {A: '2', B: '2'}}",
            ["presets.p.kubespawner_override.environment.A"],
        ),
        (
            "{tolerations: [{key: a}]}",
            "{}",
            "{tolerations: [{key: b}]}",
            ["presets.p.kubespawner_override.tolerations"],
        ),
        ("{cmd: [a]}", "{uid: 1}", "{gid: 1}", []),
    ],
    ids=["image_preset", "same", "image_gpu", "mapping", "list", "other_traits"],
)
def test_an_override_that_takes_the_place_of_another_is_reported(
    tmp_path: Path, image: str, gpu: str, preset: str, found: list[str]
):
    text = (
        f"images: {{a: {{image: 'a:1', cuda: '12.8', kubespawner_override: {image}}}}}\n"
        f"{T4}, kubespawner_override: {gpu}}}}}\n"
        f"presets: {{p: {{image: a, gpu: t4, gpu_count: 1, kubespawner_override: {preset}}}}}"
    )
    assert [(path, "replaced") for path in found] == find(tmp_path, text)


def test_an_entry_may_replace_what_its_preset_says(tmp_path: Path):
    entry = "{size: {entries: {s: {kubespawner_override: {start_timeout: 60}}}}}"
    assert (
        find(tmp_path, f"presets: {{p: {{cpu: 1, kubespawner_override: {{start_timeout: 90}}, choices: {entry}}}}}")
        == []
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cpu: {max: 8}\npresets: {a: {cpu: 2}}", ["cpu"]),
        ("cpu: {max: 8}\npresets: {a: {cpu: 2}, b: {memory: 1G}}", []),
        ("cpu: {max: 8}\npresets: {a: {cpu: 2}, b: {enabled: false}}", ["cpu"]),
        ("cpu: {max: 8}\npresets: {a: {choices: {size: {entries: {s: {cpu: 1}, l: {cpu: 2}}}}}}", ["cpu"]),
        ("cpu: {max: 8}\npresets: {a: {choices: {size: {entries: {s: {cpu: 1}, l: {}}}}}}", []),
        ("cpu: {max: 8, guarantee: 0.5}\npresets: {a: {cpu: 2}}", ["cpu"]),
        ("memory: {max: 8G, default: 2G}\npresets: {a: {memory: unlimited}}", ["memory"]),
        ("shared_memory: {max: 8G}\npresets: {a: {cpu: 2}}", ["shared_memory"]),
        ("shared_memory: {max: 8G}\npresets: {a: {cpu: 2, shared_memory: 1G}}", []),
        ("custom_images: {allowed: true}\npresets: {a: {cpu: 2}}", ["custom_images"]),
        (f"{IMAGES}\npresets: {{p: {{image: b}}}}", ["images"]),
        (f"{IMAGES}\npresets: {{p: {{image: b}}, q: {{cpu: 1}}}}", []),
        (f"{IMAGES}\npresets: {{p: {{choices: {{i: {{entries: {{a: {{image: a}}, b: {{image: b}}}}}}}}}}}}", []),
        ("run_time: {max: 8h, default: 4h}\npresets: {a: {cpu: 2}}", []),
    ],
    ids=[
        "cpu", "cpu_needed", "disabled", "entries", "some_entries", "guarantee", "memory", "shm", "shm_used", "custom",
        "image", "default_image", "image_entries", "run_time",
    ],
)  # fmt: skip
def test_settings_without_effect_beside_only_presets_are_reported(tmp_path: Path, text: str, found: list[str]):
    assert [(path, "unused") for path in found] == find(tmp_path, f"only_presets: true\n{text}")


def test_a_setting_of_another_file_that_has_no_effect_is_a_hint(tmp_path: Path):
    values = written(tmp_path, section("cpu: {max: 8}"), section("only_presets: true\npresets: {a: {cpu: 2}}"))
    assert paths(told(values)) == []
    assert paths(told(values, Severity.HINT)) == [("cpu", "unused")]


def test_without_only_presets_bounds_have_an_effect(tmp_path: Path):
    assert find(tmp_path, "cpu: {max: 8}\npresets: {a: {cpu: 2}}") == []


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
    text = f"presets: {{p: {{cpu: 1, kubespawner_override: {override}}}}}"
    assert [(f"presets.p.kubespawner_override.{path}", "doubtful") for path in found] == find(tmp_path, text)


def test_an_unknown_gpu_type_of_an_entry_is_reported(tmp_path: Path):
    text = "presets: {p: {choices: {gpu: {entries: {x: {gpu: a1000, gpu_count: 1}}}}}}"
    assert find(tmp_path, text) == [("presets.p.choices.gpu.entries.x.gpu", "unknown_slug")]
