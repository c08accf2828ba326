from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.diff.conftest import (
    DEFAULT,
    LARGE,
    PROFILES,
    TEXT,
    TEXT_LARGE,
    Diff,
    Edit,
    list_differences,
    list_outcomes,
    make_profiles,
    make_settings,
)

CHOICES = ["no choice", "profile small", DEFAULT, TEXT, LARGE, TEXT_LARGE]
FORM = "form · image: {} · gpu: {}"


def _set(*path: Any, value: Any) -> Edit:
    def edit(part: Any) -> None:
        *most, last = path
        for key in most:
            part = part[key]
        part[last] = value

    return edit


def _drop(*path: Any) -> Edit:
    def edit(part: Any) -> None:
        *most, last = path
        for key in most:
            part = part[key]
        del part[last]

    return edit


# -- profiles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(make_profiles(), id="the same file"),
        pytest.param(make_profiles(JupyterHub={"spawner_class": "gpuspawner.GPUSpawner"}), id="another class alone"),
        pytest.param({"jupyterhub": make_profiles()}, id="below a parent chart"),
        pytest.param({"hub": {"config": {"KubeSpawner": {"profile_list": PROFILES}}}}, id="the trait"),
        pytest.param(make_profiles(_set(1, "description", value="More")), id="a text of the form"),
    ],
)
def test_the_same_profiles_give_the_same_pods(new: Any, diff: Diff):
    status, report = diff(make_profiles(), new)
    assert (status, list_outcomes(report)) == (0, dict.fromkeys(CHOICES, "same"))


OVERRIDE = (1, "kubespawner_override")


@pytest.mark.parametrize(
    ("edit", "differences"),
    [
        pytest.param(
            _set(*OVERRIDE, "node_selector", "pool", value="a100"), ["spec.nodeSelector.pool t4 → a100"], id="selector"
        ),
        pytest.param(
            _set(*OVERRIDE, "extra_resource_limits", value={"nvidia.com/gpu": "2"}),
            ["spec.containers.notebook.resources.limits.nvidia.com/gpu 1 → 2"],
            id="GPUs",
        ),
        pytest.param(
            _set(*OVERRIDE, "environment", value={"MODE": "slow", "MORE": "1"}),
            ["spec.containers.notebook.env.MODE fast → slow", "spec.containers.notebook.env.MORE absent → 1"],
            id="environment",
        ),
        pytest.param(
            _set(*OVERRIDE, "tolerations", value=[{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]),
            ["spec.tolerations.0.effect NoSchedule → NoExecute"],
            id="a list without names",
        ),
        pytest.param(
            _set(*OVERRIDE, "init_containers", value=[{"name": "a", "image": "b"}]),
            ['spec.initContainers absent → [{"image": "b", "name": "a"}]'],
            id="a new section",
        ),
        pytest.param(
            _set(*OVERRIDE, "volume_mounts", value=[{"name": ["x"], "mountPath": "/x"}]),
            ['spec.containers.notebook.volumeMounts.[\'x\'] absent → {"mountPath": "/x", "name": ["x"]}'],
            id="a name that is no text",
        ),
        pytest.param(
            _set(*OVERRIDE, "start_timeout", value=60), ["KubeSpawner.start_timeout 900 → 60"], id="beside the pod"
        ),
        pytest.param(
            _set(1, "profile_options", "size", "choices", "small", "kubespawner_override", value={"mem_limit": "9G"}),
            [
                "spec.containers.notebook.env.MEM_LIMIT 8589934592 → 9663676416",
                "spec.containers.notebook.resources.limits.memory 8 GiB → 9 GiB",
            ],
            id="an entry of a list",
        ),
    ],
)
def test_each_field_that_differs_is_named(edit: Edit, differences: list[str], diff: Diff):
    status, report = diff(make_profiles(), make_profiles(edit))
    assert (status, list_outcomes(report)[DEFAULT], list_outcomes(report)["profile small"]) == (4, "different", "same")
    assert list_differences(report, DEFAULT) == differences


def test_who_chooses_nothing_gets_the_default_profile(diff: Diff):
    _, report = diff(make_profiles(), make_profiles(_set(0, "kubespawner_override", "image", value="a/cpu:2")))
    fields = [line.split(" ")[0].rpartition(".")[2] for line in list_differences(report, "no choice")]
    assert fields == ["JUPYTER_IMAGE", "JUPYTER_IMAGE_SPEC", "image"]


GAINED = {"a100": {"display_name": "A", "kubespawner_override": {"cpu_limit": 4}}, "t4": {"display_name": "T"}}


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        pytest.param(_drop(0), {"profile small": "only old", "no choice": "different"}, id="a profile"),
        pytest.param(
            _drop(1, "profile_options", "size", "choices", "large"),
            {LARGE: "only old", TEXT_LARGE: "only old"},
            id="an entry",
        ),
        pytest.param(
            _drop(1, "profile_options", "size"),
            {DEFAULT: "different", TEXT: "different", LARGE: "only old", TEXT_LARGE: "only old"},
            id="a list",
        ),
        pytest.param(
            _set(1, "profile_options", "image", "unlisted_choice", "validation_regex", value="^b/.+"),
            {
                TEXT: "only old",
                TEXT_LARGE: "only old",
                TEXT.replace("^.+:.+$", "^b/.+"): "only new",
                TEXT_LARGE.replace("^.+:.+$", "^b/.+"): "only new",
            },
            id="another pattern for texts",
        ),
        pytest.param(_set(1, "slug", value="gpus"), None, id="another slug"),
    ],
)
def test_what_only_one_file_has_is_listed(edit: Edit, changed: dict[str, str] | None, diff: Diff):
    status, report = diff(make_profiles(), make_profiles(edit))
    if changed is None:
        changed = dict.fromkeys(CHOICES[2:], "only old")
        changed |= {choice.replace("profile gpu", "profile gpus"): "only new" for choice in CHOICES[2:]}
    assert (status, list_outcomes(report)) == (4, dict.fromkeys(CHOICES, "same") | changed)


def test_a_new_list_is_compared_at_its_default(diff: Diff):
    def edit(profiles: Any) -> None:
        profiles[0]["profile_options"] = {"gpu": {"choices": GAINED}}

    _, report = diff(make_profiles(), make_profiles(edit))
    outcomes = list_outcomes(report)
    assert (outcomes["profile small"], outcomes["profile small · gpu: t4"]) == ("different", "only new")
    fields = [line.split(" ")[0].rpartition(".")[2] for line in list_differences(report, "profile small")]
    assert fields == ["CPU_LIMIT", "cpu"]


def test_a_list_without_a_default_begins_with_the_first_key_as_helm_sorts_them(diff: Diff):
    def make_list(*keys: str) -> Any:
        choices = {key: {"display_name": key, "kubespawner_override": {"image": f"a/{key}:1"}} for key in keys}
        return make_profiles(_set(0, "profile_options", value={"image": {"choices": choices}}))

    status, report = diff(make_list("a", "b"), make_list("b", "a"))
    assert (status, report["choices"][1]["choice"]) == (0, "profile small · image: a")


def test_of_two_profiles_with_one_slug_the_first_is_compared(diff: Diff):
    twin = {"display_name": "Twin", "slug": "small", "profile_options": {"gpu": {"choices": GAINED}}}
    status, report = diff(make_profiles(), make_profiles(lambda profiles: profiles.append(twin)))
    assert (status, list_outcomes(report)) == (0, dict.fromkeys(CHOICES, "same"))


def test_what_one_choice_sets_is_gone_for_the_next(diff: Diff):
    _, report = diff(make_profiles(), make_profiles(lambda profiles: profiles.reverse()))
    assert list_outcomes(report) == dict.fromkeys(CHOICES, "same")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param(r"^quay\.io/ours/[a-z]+:.+$", "quay.io/ours/image:1.0", id="a registry"),
        pytest.param(r"^\d+G$", "8G", id="memory"),
    ],
)
def test_a_text_stands_for_what_the_user_writes(pattern: str, text: str, diff: Diff):
    values = make_profiles(_set(1, "profile_options", "image", "unlisted_choice", "validation_regex", value=pattern))
    _, report = diff(values, values)
    (options,) = (each["options"] for each in report["choices"] if each["choice"] == TEXT.replace("^.+:.+$", pattern))
    assert options == {"profile": "gpu", "image--unlisted-choice": text, "size": "small"}


def test_a_text_that_no_example_fits_is_left_out(diff: Diff):
    values = make_profiles(_set(1, "profile_options", "image", "unlisted_choice", "validation_regex", value="^(?=x)y$"))
    _, report = diff(values, values)
    assert list(list_outcomes(report)) == ["no choice", "profile small", DEFAULT, LARGE]
    assert report["left_out"][0] == "profile gpu · image: a text like ^(?=x)y$ is left out: none is known."


WRONG = _set(0, "kubespawner_override", "mem_limit", value="much")


def test_a_choice_that_both_refuse_is_no_difference(diff: Diff):
    status, report = diff(make_profiles(WRONG), make_profiles(WRONG))
    assert (status, report["counts"]) == (0, {"same": 4, "refused by both": 2})


def test_a_choice_that_one_refuses_differs_by_the_reason_alone(diff: Diff):
    status, report = diff(make_profiles(), make_profiles(WRONG))
    (difference,) = list_differences(report, "profile small")
    assert (status, difference.partition(" → ")[0]) == (4, "refusal absent")
    assert "much" in difference


# -- settings ----------------------------------------------------------------------------------------------------------


def test_presets_and_the_form_are_the_choices_of_settings(diff: Diff):
    status, report = diff(make_settings(), make_settings())
    form = [FORM.format(image, gpu) for image, gpu in (("cpu", "none"), ("gpu", "none"), ("cpu", "t4"), ("gpu", "t4"))]
    assert (status, list_outcomes(report)) == (0, dict.fromkeys(["no choice", "preset course", *form], "same"))


@pytest.mark.parametrize(
    ("edit", "choice", "differences"),
    [
        pytest.param(
            _set("gpus", "t4", "tolerations", value=[{"key": "gpu", "operator": "Exists"}]),
            FORM.format("gpu", "t4"),
            ['spec.tolerations.2 absent → {"key": "gpu", "operator": "Exists"}'],
            id="a GPU type",
        ),
        pytest.param(
            _set("presets", "course", "memory", value="8G"),
            "preset course",
            [
                "spec.containers.notebook.env.MEM_GUARANTEE 4294967296 → 8589934592",
                "spec.containers.notebook.env.MEM_LIMIT 4294967296 → 8589934592",
                "spec.containers.notebook.resources.limits.memory 4 GiB → 8 GiB",
                "spec.containers.notebook.resources.requests.memory 4 GiB → 8 GiB",
            ],
            id="a preset",
        ),
    ],
)
def test_a_change_of_settings_differs_where_it_matters(edit: Edit, choice: str, differences: list[str], diff: Diff):
    status, report = diff(make_settings(), make_settings(edit))
    assert (status, list_differences(report, choice)) == (4, differences)
    assert list_outcomes(report)["no choice"] == "same"


def test_what_only_nodes_bound_has_no_bound(diff: Diff):
    def make_unbound(count: int) -> Any:
        preset = {"image": "cpu", "gpu": "t4", "gpu_count": count, "cpu": 10 * count, "memory": f"{count}T"}
        values = make_settings(_set("presets", "course", value=preset))
        del values["hub"]["config"]["GPUSpawner"]["cpu"], values["hub"]["config"]["GPUSpawner"]["memory"]
        return values

    _, report = diff(make_unbound(8), make_unbound(9))
    limits = "spec.containers.notebook.resources.limits"
    assert [line for line in list_differences(report, "preset course") if line.startswith(limits)] == [
        f"{limits}.cpu 80.0 → 90.0",
        f"{limits}.memory 8 TiB → 9 TiB",
        f"{limits}.nvidia.com/gpu 8 → 9",
    ]


def test_notes_of_gpuspawner_in_the_pod_are_no_difference(diff: Diff):
    status, _ = diff(make_settings(), make_settings(_set("images", "cpu", "display_name", value="Another name")))
    assert status == 0


def test_profiles_are_not_compared_with_presets(diff: Diff):
    status, report = diff(make_profiles(_set(0, "slug", value="course")), make_settings())
    outcomes = list_outcomes(report)
    assert (status, outcomes["profile course"], outcomes["preset course"]) == (4, "only old", "only new")
    assert outcomes["no choice"] == "different"


def test_types_that_only_the_nodes_show_are_left_out(diff: Diff):
    _, report = diff(make_settings(), make_settings(_drop("discover_gpus")))
    assert report["left_out"][0] == "GPU types that only the nodes show are left out."


def test_values_without_choices_have_the_default_server(diff: Diff):
    status, report = diff({}, {"singleuser": {"defaultUrl": "/lab"}})
    assert (status, list_outcomes(report)) == (4, {"no choice": "different"})
