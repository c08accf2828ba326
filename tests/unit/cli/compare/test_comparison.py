from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from gpuspawner.cli.compare.comparison import ChoiceOutcome, ChoicePair
from gpuspawner.core.errors import SettingsError
from tests.unit.cli.compare.conftest import (
    CUSTOM,
    LARGE,
    SMALL,
    Edit,
    compare,
    find_result,
    list_outcomes,
    make_profiles,
    make_settings,
)


def test_settings_that_say_what_the_profiles_say_give_the_same_servers():
    report = compare(make_profiles(), make_settings())
    assert list_outcomes(report) == dict.fromkeys(["No choice", "Small", LARGE, SMALL, CUSTOM], "same")
    assert (report.is_same, report.total, report.is_sampled) == (True, 5, False)


def test_the_way_back_is_the_same_too():
    assert list_outcomes(compare(make_settings(), make_profiles())) == dict.fromkeys(
        ["No choice", "Small", LARGE, SMALL, CUSTOM], "same"
    )


def test_the_options_of_both_sides_are_reported():
    report = compare(make_profiles(), make_settings())
    assert find_result(report, CUSTOM).pair == ChoicePair(
        label=CUSTOM,
        old_options={
            "profile": "gpu",
            "size": "small",
            "image--unlisted-choice": "registry.example.org/team/image:1.0",
        },
        new_options={
            "v": 1,
            "preset": "gpu",
            "preset_choices": {"size": "small"},
            "custom_image": "registry.example.org/team/image:1.0",
        },
    )


def _set(*path: str, value: Any) -> Edit:
    def edit(settings: Any) -> None:
        *most, last = path
        for key in most:
            settings = settings[key]
        settings[last] = value

    return edit


def _override(name: str, value: Any) -> Edit:
    return _set("presets", "gpu", "kubespawner_override", name, value=value)


GPU_ONLY = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
MORE_VOLUMES = {"volumes": [{"name": "data", "emptyDir": {}}], "volume_mounts": [{"name": "data", "mountPath": "/d"}]}


@pytest.mark.parametrize(
    ("edit", "details"),
    [
        pytest.param(_set("images", "gpu", "image", value="a/gpu:2"), ["image a/gpu:1 → a/gpu:2"], id="image"),
        pytest.param(_set("presets", "gpu", "cpu", value=4), ["CPU limit none → 4"], id="CPU limit"),
        pytest.param(_set("presets", "gpu", "cpu_guarantee", value=1), ["CPU request 0.5 → 1"], id="CPU request"),
        pytest.param(
            _set("presets", "gpu", "choices", "size", "entries", "small", "memory", value="16G"),
            ["memory limit 8 GiB → 16 GiB"],
            id="memory limit",
        ),
        pytest.param(
            _set("presets", "gpu", "choices", "size", "entries", "small", "memory_guarantee", value="1G"),
            ["memory request 8 GiB → 1 GiB"],
            id="memory request",
        ),
        pytest.param(
            _set("presets", "gpu", "gpu_count", value=2), ["resource nvidia.com/gpu 1 → 2"], id="number of GPUs"
        ),
        pytest.param(
            _set("gpus", "t4", "resource", value="nvidia.com/mig-1g.5gb"),
            ["resource nvidia.com/gpu 1 → none", "resource nvidia.com/mig-1g.5gb none → 1"],
            id="another resource",
        ),
        pytest.param(_set("gpus", "t4", "match", value={}), ["node selection pool=t4 → none"], id="any node"),
        pytest.param(
            _set("gpus", "t4", "match", value={"pool": ["t4", "v100"]}),
            ["node selection pool=t4 → pool in (t4, v100)"],
            id="more nodes",
        ),
        pytest.param(
            _override("tolerations", [*GPU_ONLY, {"key": "team", "value": "a"}]),
            ["toleration team=a no → yes"],
            id="one more toleration",
        ),
        pytest.param(_override("tolerations", []), ["toleration gpu:NoSchedule yes → no"], id="no toleration"),
        pytest.param(_override("environment", {"MODE": "slow"}), ["variable MODE fast → slow"], id="variable"),
        pytest.param(_override("environment", {}), ["variable MODE fast → none"], id="no variable"),
        pytest.param(_override("start_timeout", 600), ["start timeout 900 → 600"], id="start timeout"),
        pytest.param(_override("default_url", "/lab"), ["default URL none → /lab"], id="default URL"),
        pytest.param(_override("cmd", ["start.sh"]), ["command jupyterhub-singleuser → start.sh"], id="command"),
        pytest.param(_override("priority_class_name", "high"), ["priority class none → high"], id="priority"),
        pytest.param(
            _override("service_account", "s3"),
            ["service account none → s3", "pod automountServiceAccountToken false → none"],
            id="service account",
        ),
        pytest.param(_override("working_dir", "/w"), ["working directory none → /w"], id="working directory"),
        pytest.param(
            _set("gpus", "t4", "runtime_class", value="nvidia"), ["runtime class none → nvidia"], id="runtime class"
        ),
        pytest.param(
            lambda settings: settings["presets"]["gpu"]["kubespawner_override"].update(MORE_VOLUMES),
            [
                'volume data none → {"emptyDir": {}, "name": "data"}',
                'mount /d none → {"mountPath": "/d", "name": "data"}',
            ],
            id="volume",
        ),
        pytest.param(
            _override("init_containers", [{"name": "copy", "image": "a/copy:1"}]),
            ['init container copy none → {"image": "a/copy:1"}'],
            id="init container",
        ),
        pytest.param(
            _override("extra_containers", [{"name": "proxy", "image": "a/proxy:1"}]),
            ['container proxy none → {"image": "a/proxy:1"}'],
            id="container",
        ),
        pytest.param(
            _override("image_pull_policy", "Always"),
            ["notebook imagePullPolicy none → Always"],
            id="pull policy",
        ),
        pytest.param(_override("fs_gid", 200), ["pod securityContext.fsGroup 100 → 200"], id="security context"),
        pytest.param(_override("extra_labels", {"team": "a"}), ["pod labels.team none → a"], id="label"),
        pytest.param(
            _override("extra_pod_config", {"hostNetwork": True}), ["pod hostNetwork none → true"], id="another field"
        ),
        pytest.param(
            _override("storage_capacity", "10Gi"), ["trait storage_capacity none → 10Gi"], id="trait of no pod"
        ),
    ],
)
def test_each_difference_of_a_server_is_named(edit: Edit, details: list[str]):
    result = find_result(compare(make_profiles(), make_settings(edit)), SMALL)
    assert [str(each) for each in result.differences] == details
    assert result.outcome is ChoiceOutcome.DIFFERS


@pytest.mark.parametrize(
    ("edit", "changes"),
    [
        pytest.param(_set("presets", "gpu", "cpu", value=4), True, id="CPU"),
        pytest.param(_set("gpus", "t4", "match", value={}), True, id="nodes"),
        pytest.param(_set("presets", "gpu", "gpu_count", value=2), True, id="GPUs"),
        pytest.param(_override("environment", {}), False, id="variable"),
        pytest.param(_override("start_timeout", 600), False, id="start timeout"),
    ],
)
def test_a_change_of_resources_is_distinguished_from_others(edit: Edit, *, changes: bool):
    result = find_result(compare(make_profiles(), make_settings(edit)), SMALL)
    assert (result.changes_resources, result.widens) == (changes, False)


@pytest.mark.parametrize(
    ("edit", "outcomes", "details"),
    [
        pytest.param(
            lambda settings: settings["presets"]["gpu"].pop("allowed_groups"),
            {LARGE: "wider access", SMALL: "wider access", CUSTOM: "wider access"},
            {SMALL: "also for all other users", LARGE: "also for group staff"},
            id="a preset is open to all",
        ),
        pytest.param(
            lambda settings: settings["presets"]["gpu"]["choices"]["size"]["entries"]["large"].pop("allowed_groups"),
            {LARGE: "wider access", SMALL: "same", CUSTOM: "same"},
            {LARGE: "also for group tutors"},
            id="an entry is open to all",
        ),
        pytest.param(
            _set("presets", "gpu", "allowed_groups", value=["tutors", "guests"]),
            {LARGE: "wider access", SMALL: "wider access", CUSTOM: "wider access"},
            {SMALL: "also for group guests", LARGE: "also for groups guests and staff"},
            id="one more group",
        ),
        pytest.param(
            _set("presets", "gpu", "allowed_users", value=["ada"]),
            {LARGE: "same", SMALL: "wider access", CUSTOM: "wider access"},
            {SMALL: "also for user ada"},
            id="a user",
        ),
        pytest.param(
            _set("presets", "small", "allowed_groups", value=["staff"]),
            {"Small": "differs", LARGE: "same", SMALL: "same", CUSTOM: "same"},
            {"Small": "no longer for users of no group; no longer for group tutors"},
            id="narrower",
        ),
        pytest.param(
            _set("policy", value={"default": {"memory": {"max": "8G"}}}),
            {"Small": "same", LARGE: "differs", SMALL: "same", CUSTOM: "same"},
            {LARGE: "no longer for any user"},
            id="a rule of policy",
        ),
    ],
)
def test_who_may_have_it_is_compared(edit: Edit, outcomes: dict[str, str], details: dict[str, str]):
    report = compare(make_profiles(), make_settings(edit))
    assert {label: list_outcomes(report)[label] for label in outcomes} == outcomes
    assert {label: find_result(report, label).details for label in details} == details
    assert {label for label in outcomes if find_result(report, label).widens} == {
        label for label, outcome in outcomes.items() if outcome == "wider access"
    }


def test_a_group_is_the_same_in_any_letter_case():
    def edit(settings: Any) -> None:
        settings["presets"]["gpu"]["allowed_groups"] = ["Tutors"]

    assert compare(make_profiles(), make_settings(edit)).is_same


def test_what_an_empty_list_of_groups_gives_to_no_user_is_no_choice():
    def edit(profiles: Any) -> None:
        profiles[0]["allowed_groups"] = []
        profiles[1]["profile_options"]["size"]["choices"]["small"]["allowed_groups"] = []

    report = compare(make_profiles(edit), make_settings())
    assert list_outcomes(report)["Small"] == list_outcomes(report)[SMALL] == "added"
    assert find_result(report, "Small").details == "also for all users"


def test_another_pattern_for_images_is_named_and_widens():
    edit = _set("presets", "gpu", "choices", "image", "custom_image", value={})
    result = find_result(compare(make_profiles(), make_settings(edit)), CUSTOM)
    assert (str(result.differences[0]), result.widens) == ("text pattern ^.+:.+$ → any", True)


def test_what_one_side_lacks_is_removed_or_added():
    def edit(settings: Any) -> None:
        settings["presets"]["tpu"] = settings["presets"].pop("small") | {"display_name": "TPU"}
        del settings["presets"]["gpu"]["choices"]["image"]["custom_image"]

    report = compare(make_profiles(), make_settings(edit))
    assert list_outcomes(report) == {
        "No choice": "same",
        "Small": "removed",
        LARGE: "same",
        SMALL: "same",
        CUSTOM: "removed",
        "TPU": "added",
    }
    assert find_result(report, "TPU").details == "also for all users"


def test_profiles_are_matched_by_name_where_keys_differ():
    def edit(settings: Any) -> None:
        presets = settings["presets"]
        presets["first"] = presets.pop("small")
        entries = presets["gpu"]["choices"]["size"]["entries"]
        entries["mem-8"] = entries.pop("small")

    assert compare(make_profiles(), make_settings(edit)).is_same


def test_an_open_form_is_an_added_choice():
    report = compare(make_profiles(), make_settings(_set("only_presets", value=False)))
    added = [each.pair.label for each in report.results if each.outcome is ChoiceOutcome.ADDED]
    assert added == [f"Form · Image: {image} · GPU: {gpu}" for image in ("cpu", "gpu") for gpu in ("none", "t4")]


def test_two_forms_are_compared():
    def edit(settings: Any) -> None:
        settings |= {"only_presets": False, "presets": {}}

    def edit_new(settings: Any) -> None:
        edit(settings)
        settings["gpus"]["t4"]["environment"] = {"MODE": "slow"}
        settings["images"]["new"] = {"image": "a/new:1"}

    report = compare(make_settings(edit), make_settings(edit_new))
    assert list_outcomes(report) == {
        "No choice": "same",
        "Form · Image: cpu · GPU: none": "same",
        "Form · Image: cpu · GPU: t4": "differs",
        "Form · Image: gpu · GPU: none": "same",
        "Form · Image: gpu · GPU: t4": "differs",
        "Form · Image: new · GPU: none": "added",
        "Form · Image: new · GPU: t4": "added",
    }


def test_the_default_server_is_compared():
    def edit(settings: Any) -> None:
        settings["presets"]["small"]["default"] = False
        settings["presets"]["gpu"]["default"] = True

    result = find_result(compare(make_profiles(), make_settings(edit)), "No choice")
    assert str(result.differences[0]) == "image a/cpu:1 → a/gpu:1"


def test_a_conversion_tells_the_counterpart_of_each_choice():
    asked = []

    def find_pair(options: Any) -> ChoicePair:
        asked.append(dict(options))
        new = {"v": 1, "preset": "small"} if options.get("profile") == "small" else None
        return ChoicePair(label=str(options), old_options=options, new_options=new, reason="Too large.")

    report = compare(make_profiles(), make_settings(), find_pair=find_pair, is_conversion=True)
    counts = {ChoiceOutcome.SAME: 1, ChoiceOutcome.NO_EQUIVALENT: 4, ChoiceOutcome.ADDED: 3}
    assert (len(asked), asked[0], asked[1], report.counts) == (5, {}, {"profile": "small"}, counts)
    assert report.results[-4].details == "Too large."


def test_a_choice_that_gpuspawner_refuses_has_no_equivalent():
    report = compare(make_profiles(), make_settings(_set("gpus", "t4", "max_count", value=1)), is_conversion=True)
    assert report.is_same

    def find_pair(options: Any) -> ChoicePair:
        new = {"v": 1, "preset": "gpu", "cpu": 4}
        return ChoicePair(label="x", old_options=options, new_options=new)

    result = compare(make_profiles(), make_settings(), find_pair=find_pair, is_conversion=True).results[1]
    assert (result.outcome, result.reason) == (
        ChoiceOutcome.NO_EQUIVALENT,
        "gpuspawner refuses it: cpu: The preset 'GPU' sets cpu itself.",
    )


def test_a_choice_that_both_sides_refuse_is_not_compared_and_its_reason_is_printed_once():
    def edit(profiles: Any) -> None:
        del profiles[1]["profile_options"]["image"]["choices"]
        profiles[0]["default"], profiles[1]["default"] = False, True

    report = compare(make_profiles(edit), make_profiles(edit))
    result = find_result(report, "No choice")
    assert (result.outcome, result.reason.count("Unable to determine a default choice for image")) == (
        ChoiceOutcome.UNKNOWN,
        1,
    )
    assert not report.is_same
    image = "GPU · Image: Other… · Size:"
    expected = {"No choice": "not compared", "Small": "same", f"{image} Large": "same", f"{image} Small": "same"}
    assert list_outcomes(report) == expected


def test_a_value_that_kubespawner_refuses_is_named():
    def edit(profiles: Any) -> None:
        profiles[0]["kubespawner_override"]["cpu_limit"] = "many"

    result = find_result(compare(make_profiles(edit), make_settings()), "Small")
    assert result.details.startswith("start KubeSpawner refuses it: TraitError: ")
    assert result.details.endswith(" → starts")


def test_a_text_for_another_trait_is_one_that_kubespawner_takes():
    def edit(profiles: Any) -> None:
        unlisted = {"enabled": True, "kubespawner_override": {"mem_limit": "{value}"}}
        profiles[1]["profile_options"]["size"]["unlisted_choice"] = unlisted

    result = compare(make_profiles(edit), make_settings()).results[-1]
    assert (result.outcome, result.pair.old_options) == (
        ChoiceOutcome.REMOVED,
        {"profile": "gpu", "image": "gpu", "size--unlisted-choice": "2G"},
    )


def test_a_choice_that_no_user_may_have_needs_no_equivalent():
    def edit(profiles: Any) -> None:
        profiles[1] |= {"allowed_groups": None, "allowed_users": ["ada"]}
        profiles[1]["profile_options"]["size"]["choices"]["large"] |= {"allowed_groups": None, "allowed_users": ["bob"]}

    def edit_settings(settings: Any) -> None:
        settings["presets"]["gpu"] |= {"allowed_groups": None, "allowed_users": ["ada"]}
        del settings["presets"]["gpu"]["choices"]["size"]["entries"]["large"]

    report = compare(make_profiles(edit), make_settings(edit_settings))
    assert (report.is_same, find_result(report, LARGE).reason) == (True, "No user may have it.")


def test_a_user_may_be_of_groups_too():
    def edit(profiles: Any) -> None:
        profiles[1]["profile_options"]["size"]["choices"]["large"] |= {"allowed_groups": None, "allowed_users": ["ada"]}

    def edit_settings(settings: Any, users: list[str]) -> None:
        entries = settings["presets"]["gpu"]["choices"]["size"]["entries"]
        entries["large"] = {**entries["large"], "allowed_groups": None, "allowed_users": users}

    reports = [
        compare(make_profiles(edit), make_settings(partial(edit_settings, users=users)))
        for users in (["ada"], ["bob"], ["ada", "bob"])
    ]
    assert [find_result(report, LARGE).details for report in reports] == [
        "",
        "also for user bob; no longer for user ada",
        "also for user bob",
    ]


def test_a_text_that_no_example_fits_is_not_compared():
    def edit(profiles: Any) -> None:
        unlisted = profiles[1]["profile_options"]["image"]["unlisted_choice"]
        unlisted["validation_regex"] = "^(?=x)y$"

    result = find_result(compare(make_profiles(edit), make_settings()), CUSTOM)
    assert (result.outcome, result.reason) == (
        ChoiceOutcome.UNKNOWN,
        "no text is known that matches the pattern for the user's text",
    )


def test_a_gpu_type_that_only_nodes_describe_is_not_compared():
    def edit(settings: Any) -> None:
        settings |= {"gpus": {}, "discover_gpus": True}

    report = compare(make_profiles(), make_settings(edit))
    assert find_result(report, SMALL).outcome is ChoiceOutcome.UNKNOWN


def test_of_two_profiles_with_one_slug_each_is_compared():
    def edit(profiles: Any) -> None:
        profiles[0] |= {"slug": "same", "allowed_groups": ["a"]}
        profiles[1] |= {"slug": "same", "display_name": "Small", "profile_options": {}}

    report = compare(make_profiles(edit), make_profiles(edit))
    assert [each.pair.label for each in report.results] == ["No choice", "Small (same)", "Small (same#2)"]
    assert report.is_same
    assert find_result(report, "Small (same#2)").pair.old_options == {"profile": "same#2"}


def test_lists_are_compared_as_helm_gives_them_to_the_hub():
    def reverse(profiles: Any) -> None:
        for option in profiles[1]["profile_options"].values():
            option["choices"] = dict(reversed(option["choices"].items()))
        del profiles[1]["profile_options"]["size"]["choices"]["small"]["default"]
        profiles[1]["default"], profiles[0]["default"] = True, False

    def find_default(*, is_helm: bool) -> str:
        report = compare(make_profiles(reverse), make_settings(), old_is_helm=is_helm)
        return find_result(report, "No choice").details

    assert "memory limit 16 GiB → 4 GiB" in find_default(is_helm=True)
    assert "memory limit 8 GiB → 4 GiB" in find_default(is_helm=False)


@pytest.mark.parametrize(
    ("trait", "value"),
    [
        pytest.param("environment", {"LEFT": "over"}, id="a mapping"),
        pytest.param("default_url", "/left", id="a text"),
    ],
)
def test_what_one_choice_sets_is_gone_for_the_next(trait: str, value: object):
    def edit_profiles(profiles: Any) -> None:
        profiles[0]["kubespawner_override"][trait] = value

    def edit_settings(settings: Any) -> None:
        settings["presets"]["small"]["kubespawner_override"] = {trait: value}

    assert compare(make_profiles(edit_profiles), make_settings(edit_settings)).is_same
    assert compare(make_settings(edit_settings), make_profiles(edit_profiles)).is_same


def _make_many(number: int) -> Edit:
    def edit(profiles: Any) -> None:
        for name in ("a", "b"):
            choices = {f"{name}{place:03}": {"kubespawner_override": {}} for place in range(number)}
            profiles[0].setdefault("profile_options", {})[name] = {"choices": choices}

    return edit


def test_of_too_many_choices_a_sample_is_compared():
    old = make_profiles(_make_many(20))
    reports = [compare(old, old, limit=50, seed=seed) for seed in (1, 1, 2)]
    assert [(each.total, each.tried, each.is_sampled, each.seed) for each in reports[:1]] == [(404, 51, True, 1)]
    labels = [[each.pair.label for each in report.results] for report in reports]
    assert labels[0] == labels[1]
    assert labels[0] != labels[2]


@pytest.mark.parametrize(
    ("old", "message"),
    [
        pytest.param({"singleuser": {"profileList": [{"slug": "x"}]}}, "display_name in profile 1", id="no name"),
        pytest.param({"singleuser": {"profileList": ["x"]}}, "profile_list", id="no mapping"),
        pytest.param({"singleuser": {"profileList": "x"}}, "profile_list", id="a text"),
        pytest.param({"hub": {"config": {"GPUSpawner": {"presets": 1}}}}, "presets", id="wrong settings"),
        pytest.param({"hub": {"config": {"KubeSpawner": {"cpu_limit": "x"}}}}, "cpu_limit", id="wrong trait"),
    ],
)
def test_values_that_the_hub_would_not_take_are_an_error(old: Any, message: str):
    with pytest.raises(SettingsError, match=message):
        compare(old, make_settings())


def test_values_without_a_list_have_the_default_server():
    report = compare({}, {"singleuser": {"memory": {"limit": "2G"}}})
    assert [(each.pair.label, each.details) for each in report.results] == [("No choice", "memory limit none → 2 GiB")]
