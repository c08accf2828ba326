"""Overrides of KubeSpawner's traits are checked with the installed KubeSpawner before a server needs them."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traitlets import Int, Unicode

from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.hub.spawner import GPUSpawner

BRACES = "does not make a valid pod. If a text has braces that are no template, write them twice"
SMALL = "images.small.kubespawner_override"


def with_image(override: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"images": {"small": {"image": "small:1", "kubespawner_override": override, **more}}}


def find_problems(settings: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(SettingsError) as wrong:
        parse_settings(settings)
    return [(problem.field, problem.message) for problem in wrong.value.problems]


@pytest.mark.parametrize(
    "override",
    [
        {"node_selector": {"pool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
        {"node_selector": {"pool": None}},
        {"environment": {"HOME": "/home/{username}", "JSON": "{{}}", "NUMBER": "1", "GONE": None}},
        {"environment": {"NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}}},
        {"default_url": "/lab/tree/{username}", "start_timeout": 900, "http_timeout": 60},
        {"volumes": {"data": {"name": "data", "persistentVolumeClaim": {"claimName": "claim-{user_server}"}}}},
        {"volumes": [{"name": "data", "emptyDir": {}}], "volume_mounts": [{"name": "data", "mountPath": "/data"}]},
        {"extra_resource_limits": {"google.com/tpu": "4"}},
        {"extra_pod_config": {"hostNetwork": True, "dnsPolicy": None}},
        {"init_containers": [{"name": "copy", "image": "busybox", "command": ["cp", "-r", "/a", "/b"]}]},
        {"args": ["--debug"], "uid": 1000, "pod_security_context": {"fsGroup": 100}},
        {"cmd": "start.sh", "image_pull_policy": "Always", "storage_pvc_ensure": False},
        {},
    ],
    ids=lambda override: "+".join(override) or "nothing",
)
def test_an_override_that_kubespawner_accepts_is_kept(override: dict[str, Any]):
    before = deepcopy(override)
    settings = parse_settings(with_image(override))
    assert override == before
    assert settings.configured.images["small"].overrides == override


@pytest.mark.parametrize(
    ("override", "field", "message"),
    [
        ({"node_selectr": {}}, "node_selectr", "KubeSpawner has no such trait. Did you mean 'node_selector'?"),
        ({"zzzzzz": {}}, "zzzzzz", "KubeSpawner has no such trait."),
        ({"start_timeout": "soon"}, "start_timeout", "must be an int, not a text"),
        ({"node_selector": "gpu=t4"}, "node_selector", "must be a mapping, not a text"),
        ({"privileged": 3}, "privileged", "must be a boolean, not 3"),
        ({"uid": []}, "uid", "must be an int or a callable, not a list"),
        (
            {"tolerations": ["gpu"]},
            "tolerations",
            "does not make a valid pod: Expected object of type 'dict' (or 'V1Toleration') but got 'str'.",
        ),
        (
            {"tolerations": [{"kee": "gpu"}]},
            "tolerations",
            "does not make a valid pod: 'V1Toleration' did not have an attribute matching 'kee'",
        ),
        ({"environment": {"NAME": "{user}"}}, "environment", BRACES),
        (
            {"environment": {"DEBUG": 1}},
            "environment",
            "does not make a valid pod: the value of DEBUG must be a text, so it needs quotes",
        ),
        ({"default_url": "/lab/{"}, "default_url", BRACES),
    ],
    ids=["misspelled", "no_trait", "text", "mapping", "number", "list", "item", "key", "template", "variable", "brace"],
)
def test_an_override_that_kubespawner_rejects_is_reported(override: dict[str, Any], field: str, message: str):
    assert [(f"{SMALL}.{field}", message)] == find_problems(with_image(override))


@pytest.mark.parametrize(
    "override",
    [
        {"extra_pod_config": {"affinity": ["x"]}},
        {"extra_pod_config": {"affinity": "x"}},
        {"extra_pod_config": {"affinity": {"nodeAffinity": "x"}}},
        {"extra_pod_config": {"nodeSelector": ["x"]}},
        {"extra_pod_config": {"tolerations": "x"}},
        {"extra_pod_config": {"volumes": "x"}},
        {"extra_container_config": {"resources": "x"}},
        {"extra_container_config": {"resources": {"limits": "x"}}},
        {"extra_container_config": {"volumeMounts": "x"}},
    ],
    ids=str,
)
def test_an_override_into_which_no_choice_can_be_merged_is_reported(override: dict[str, Any]):
    (trait,) = override
    assert [f"{SMALL}.{trait}"] == [field for field, _ in find_problems(with_image(override))]


QUOTES = "does not make a valid pod: the value of {} must be a text, so it needs quotes"


@pytest.mark.parametrize(
    ("override", "name"),
    [
        ({"node_selector": {"dedicated": True}}, "dedicated"),
        ({"extra_labels": {"a": 1}}, "a"),
        ({"extra_annotations": {"a": 1.5}}, "a"),
        ({"tolerations": [{"key": "gpu", "value": True}]}, "value"),
        ({"tolerations": [{"key": 1, "operator": "Exists"}]}, "key"),
        ({"extra_pod_config": {"nodeSelector": {"dedicated": True}}}, "dedicated"),
        ({"extra_pod_config": {"node_selector": {"dedicated": True}}}, "dedicated"),
        ({"extra_pod_config": {"tolerations": [{"key": "gpu", "value": 1}]}}, "value"),
        ({"extra_container_config": {"env": [{"name": "DEBUG", "value": 1}]}}, "DEBUG"),
        ({"init_containers": [{"name": "a", "image": "a", "env": [{"name": "DEBUG", "value": 1}]}]}, "DEBUG"),
        ({"extra_containers": [{"name": "a", "image": "a", "env": [{"name": "DEBUG", "value": True}]}]}, "DEBUG"),
    ],
    ids=str,
)
def test_a_value_that_needs_quotes_is_reported(override: dict[str, Any], name: str):
    (trait,) = override
    assert [(f"{SMALL}.{trait}", QUOTES.format(name))] == find_problems(with_image(override))


def test_a_list_in_the_place_of_a_text_is_reported():
    expected = [(f"{SMALL}.node_selector", "does not make a valid pod: the value of a must be a text")]
    assert expected == find_problems(with_image({"node_selector": {"a": ["b"]}}))


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_server_needs_time_to_start(seconds: int):
    expected = [(f"{SMALL}.start_timeout", f"must be at least 1, not {seconds}")]
    assert expected == find_problems(with_image({"start_timeout": seconds}))


def test_the_trait_to_blame_is_reported():
    problems = find_problems(with_image({"cmd": ["a"], "volumes": [1], "extra_labels": {"a": "{x}"}}))
    assert [f"{SMALL}.volumes", f"{SMALL}.extra_labels"] == [field for field, _ in problems]


def test_values_that_may_be_secrets_are_not_shown():
    settings = with_image({"environment": "TOKEN=s3cret", "cmd": {"a": "s3cret"}})
    assert "s3cret" not in str(find_problems(settings))


@pytest.mark.parametrize("trait", ["environment", "extra_labels", "default_url"])
@pytest.mark.parametrize(
    "text",
    [
        "a{hunter2}b",
        "{hunter2",
        "{username:hunter2}",
        "{username.hunter2}",
        "{username[hunter2]}",
        "{username!hunter2}",
    ],
)
def test_parts_of_a_secret_with_braces_are_not_shown(trait: str, text: str):
    value = text if trait == "default_url" else {"T": text}
    ((field, message),) = find_problems(with_image({trait: value}))
    assert field == f"{SMALL}.{trait}"
    assert "hunter2" not in message


def test_a_value_that_is_no_number_is_not_shown():
    assert [(f"{SMALL}.supplemental_gids", BRACES)] == find_problems(with_image({"supplemental_gids": ["hunter2"]}))


WRONG = {"kubespawner_override": {"nope": 1}}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"images": {"a": {"image": "a:1", **WRONG}}}, "images.a.kubespawner_override.nope"),
        ({"gpus": {"t4": {"resource": "nvidia.com/gpu", **WRONG}}}, "gpus.t4.kubespawner_override.nope"),
    ],
    ids=["image", "gpu"],
)
def test_every_entry_with_overrides_is_checked(settings: dict[str, Any], field: str):
    assert [field] == [each for each, _ in find_problems(settings)]


def test_an_entry_that_is_taken_out_is_not_checked():
    parse_settings({"images": {"small": {"image": "a:1", "enabled": False, **WRONG}}})


def test_functions_of_a_python_configuration_are_kept_and_not_called():
    def hook(*_: object) -> None:
        raise AssertionError

    override = {"modify_pod_hook": hook, "uid": hook, "environment": {"A": hook}}
    assert parse_settings(with_image(override)).configured.images["small"].overrides == override


class SiteSpawner(GPUSpawner):
    lab_name = Unicode().tag(config=True)
    desks = Int(min=1).tag(config=True)
    floor = Int(allow_none=True).tag(config=True)


def test_traits_of_a_subclass_may_stand_in_an_override_and_are_checked():
    assert SiteSpawner.class_traits()["desks"].name == "desks"
    good = with_image({"lab_name": "optics", "desks": 4, "floor": None})
    assert parse_settings(good).model.images["small"].overrides["desks"] == 4
    wrong = {"lab_name": 4, "desks": 0, "desk": 1}
    assert find_problems(with_image(wrong)) == [
        (f"{SMALL}.lab_name", "must be a unicode string, not 4"),
        (f"{SMALL}.desks", "must be an int, not 0"),
        (f"{SMALL}.desk", "KubeSpawner has no such trait. Did you mean 'desks'?"),
    ]


def test_a_class_that_this_process_does_not_know_may_have_any_trait():
    override = {"course_slug_2": "a", "mem_limit": True}
    with pytest.raises(SettingsError) as wrong:
        parse_settings(with_image(override), accepts_unknown_traits=True)
    assert [problem.field for problem in wrong.value.problems] == [f"{SMALL}.mem_limit"]


# -- all problems at once ----------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "images": {
        "lab": {"image": "quay.io/a/lab:1"},
        "full": {"image": "quay.io/a/full:1", "cuda": "12.8"},
        "odd": {"image": "quay.io/a/odd:1", "kubespawner_override": {"node_selector": {"pool": "a"}}},
    },
    "cpu": {"min": 1, "max": 8},
    "memory": {"min": "1G", "max": "16G"},
    "run_time": {"min": "1h", "max": "8h"},
    "gpus": {
        "t4": {"resource": "nvidia.com/gpu", "match": {"product": "T4"}, "max_count": 4},
        "a100": {"resource": "nvidia.com/gpu", "match": {"product": "A100"}, "max_count": 8},
    },
    "presets": {
        "small": {"image": "lab", "cpu": 2, "memory": "4G"},
        "large": {"image": "full", "cpu": 8, "memory": "16G", "gpu": "a100", "gpu_count": 2},
    },
    "policy": {"default": {"gpus": ["t4"]}, "groups": {"ml": {"gpus": ["a100"], "max_gpus": 4}}},
    "pools": {"all": {"groups": ["ml"], "gpus": ["a100"], "max_gpus": 8}},
    "discover_gpus": False,
}
MISTAKES: tuple[tuple[str, Any], ...] = (
    ("images.lab.image", "a b"),
    ("images.full.cuda", "twelve"),
    ("images.full.colour", "red"),
    ("cpu.max", 0.5),
    ("run_time.min", "soon"),
    ("gpus.a100.max_count", -1),
    ("gpus.t4.resource", "gpu"),
    ("gpus.T_4", {"resource": "nvidia.com/gpu", "match": {"a": "b"}}),
    ("presets.large.memory", "64G"),
    ("presets.small.image", "labs"),
    ("images.odd.kubespawner_override.nodeselector", {}),
    ("images.odd.kubespawner_override.volumes", 4),
    ("policy.groups.ml.max_gpus_per_server", 6),
    ("policy.default.images", []),
    ("pools.all.max_gpus", "many"),
    ("pools.all.gpus", ["h900"]),
)


def make_mistakes(mistakes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    settings = deepcopy(GOOD)
    for path, value in mistakes:
        *above, last = path.split(".")
        section = settings
        for key in above:
            section = section[key]
        section[last] = value
    return settings


@cache
def find_field(number: int) -> str:
    """Return the field of the only problem of a mistake; with it parsed once, all examples together take a second."""
    ((field, _),) = find_problems(make_mistakes([MISTAKES[number]]))
    return field


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[path for path, _ in MISTAKES])
def test_a_mistake_alone_is_one_problem_at_its_place(number: int):
    assert find_field(number).startswith(MISTAKES[number][0])


@settings(max_examples=60, deadline=None)
@given(mistakes=st.sets(st.integers(0, len(MISTAKES) - 1), min_size=2))
def test_all_mistakes_are_found_at_once_and_no_others(mistakes: set[int]):
    together = [field for field, _ in find_problems(make_mistakes(MISTAKES[number] for number in sorted(mistakes)))]
    assert sorted(together) == sorted({find_field(number) for number in mistakes})
