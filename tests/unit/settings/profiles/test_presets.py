from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpuspawner.settings import Settings
from gpuspawner.settings.profiles import ConvertedProfiles, ProfileListError
from gpuspawner.settings.profiles.notes import (
    DEFAULT_CHANGED,
    LATER_DEFAULT,
    NEVER_STARTED,
    NO_ENTRY,
    NO_USER_ALLOWED,
    RESTRICTED_IMAGE,
    SAME_SLUG,
    SECOND_IMAGE,
    SEVERAL_ACCELERATORS,
    SHARED_GPUS,
    SHORTENED,
    UNLISTED_CHOICE,
    VISIBLE_GPUS,
)
from tests.unit.settings.profiles.conftest import Convert

GPU = {"extra_resource_limits": {"nvidia.com/gpu": "1"}}
REQUESTED = {"extra_resource_guarantees": {"nvidia.com/gpu": 2}}
UNLISTED = {"enabled": True, "kubespawner_override": {"image": "{value}"}}


def profile(name: str = "P", *, options: Mapping[str, Any] | None = None, **override: Any) -> dict[str, Any]:
    return {"display_name": name, "kubespawner_override": override, "profile_options": options or {}}


def choices(**overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {"choices": {key: {"kubespawner_override": each} for key, each in overrides.items()}}


def get_preset(found: ConvertedProfiles, slug: str = "p") -> dict[str, Any]:
    Settings.parse(found.settings)
    preset: dict[str, Any] = found.settings["presets"][slug]
    return preset


def list_causes(found: ConvertedProfiles) -> list[Any]:
    return [note.cause for note in found.notes]


GPU_SERVER = {
    "display_name": "GPU server",
    "description": "One T4",
    "allowed_groups": ["ml"],
    "kubespawner_override": {
        **GPU,
        "image": "quay.io/a/pytorch:1.2",
        "cpu_limit": 4,
        "mem_limit": "16G",
        "mem_guarantee": "8G",
        "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
        "tolerations": [{"operator": "Exists"}],
    },
}


def test_a_profile_becomes_a_preset(convert: Convert):
    found = convert(
        GPU_SERVER,
        cpu_guarantee=0.5,
    )
    assert found.settings == {
        "only_presets": True,
        "images": {"pytorch-1.2": {"display_name": "pytorch:1.2", "image": "quay.io/a/pytorch:1.2"}},
        "gpus": {
            "t4": {
                "display_name": "T4",
                "resource": "nvidia.com/gpu",
                "match": {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
                "tolerations": [],
                "max_count": 1,
            }
        },
        "presets": {
            "gpu-server": {
                "order": 1,
                "display_name": "GPU server",
                "description": "One T4",
                "default": True,
                "image": "pytorch-1.2",
                "cpu": 4,
                "cpu_guarantee": 0.5,
                "memory": "16G",
                "memory_guarantee": "8G",
                "gpu": "t4",
                "gpu_count": 1,
                "allowed_groups": ["ml"],
                "kubespawner_override": {
                    "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
                    "tolerations": [{"operator": "Exists"}],
                },
            }
        },
        "discover_gpus": False,
    }
    assert (found.notes, Settings.parse(found.settings).model.only_presets) == ((), True)


@pytest.mark.parametrize(
    ("base", "override", "expected"),
    [
        pytest.param({}, {}, {"cpu": "unlimited", "memory": "unlimited"}, id="nothing"),
        pytest.param(
            {"mem_guarantee": "1G", "cpu_limit": 2},
            {},
            {"cpu": 2, "cpu_guarantee": 2, "memory": "unlimited", "memory_guarantee": "1G"},
            id="of the hub",
        ),
        pytest.param(
            {"mem_limit": "2G", "mem_guarantee": "1G"},
            {"mem_limit": None},
            {"cpu": "unlimited", "memory": "unlimited", "memory_guarantee": "1G"},
            id="limit removed",
        ),
        pytest.param(
            {"mem_limit": "2G", "mem_guarantee": "1G"},
            {"mem_guarantee": 0},
            {"cpu": "unlimited", "memory": "2G", "memory_guarantee": "2G"},
            id="guarantee removed",
        ),
    ],
)
def test_amounts_are_those_of_the_hub_and_the_profile(convert: Convert, base: Any, override: Any, expected: Any):
    preset = get_preset(convert(profile(**override), **base))
    amounts = {key: each for key, each in preset.items() if key.startswith(("cpu", "memory"))}
    assert amounts == expected


def test_a_guarantee_of_the_hub_is_taken_away(convert: Convert):
    preset = get_preset(convert(profile(mem_guarantee=None), mem_guarantee="1G"))
    assert (preset["memory"], preset["memory_guarantee"]) == ("unlimited", 0)


def test_entries_have_only_the_amounts_that_they_change(convert: Convert):
    options = {"size": choices(l={"mem_limit": "8G", "cpu_guarantee": None}, s={"mem_limit": "2G"})}
    preset = get_preset(convert(profile(options=options, cpu_limit=4, cpu_guarantee=1)))
    assert {key: preset.get(key) for key in ("cpu", "cpu_guarantee", "memory")} == {
        "cpu": 4,
        "cpu_guarantee": 1,
        "memory": None,
    }
    assert preset["choices"]["size"]["entries"] == {
        "l": {"display_name": "l", "cpu_guarantee": 4, "memory": "8G", "memory_guarantee": "8G"},
        "s": {"display_name": "s", "memory": "2G", "memory_guarantee": "2G"},
    }


def test_amounts_of_several_options_are_merged_as_kubespawner_merges_them(convert: Convert):
    options = {
        "a": choices(x={"mem_guarantee": "1G"}, y={}),
        "b": choices(x={"mem_limit": "8G"}, y={"mem_limit": None}),
    }
    preset = get_preset(convert(profile(options=options)))
    entries = [each["entries"] for each in preset["choices"].values()]
    assert ("memory" in preset, preset["memory_guarantee"]) == (False, 0)
    assert entries == [
        {"x": {"display_name": "x", "memory_guarantee": "1G"}, "y": {"display_name": "y"}},
        {"x": {"display_name": "x", "memory": "8G"}, "y": {"display_name": "y", "memory": "unlimited"}},
    ]


@pytest.mark.parametrize(
    ("base", "default", "expected"),
    [
        pytest.param({"image": "q/base:1"}, {}, ["base-1"], id="of the hub"),
        pytest.param({"image": "q/base:1"}, {"image": "q/own:2"}, ["own-2"], id="own"),
        pytest.param({}, {}, ["default"], id="unknown"),
    ],
)
def test_every_preset_has_its_image(convert: Convert, base: Any, default: Any, expected: list[str]):
    found = convert(profile(**default), profile("Q", image="q/other:3"), **base)
    assert [each["image"] for each in found.settings["presets"].values()] == [*expected, "other-3"]
    Settings.parse(found.settings)


def test_presets_share_images_and_are_named_after_choices(convert: Convert):
    options = {"image": choices(a={"image": "q/x:1"}, b={"image": "r/x:1"})}
    found = convert(profile("P", options=options), profile("Q", options=options))
    assert found.settings["images"] == {
        "x-1": {"display_name": "a", "image": "q/x:1"},
        "x-1-2": {"display_name": "b", "image": "r/x:1"},
    }
    assert "image" not in get_preset(found)


def test_order_is_written_where_helm_would_sort_otherwise(convert: Convert):
    found = convert(profile("B", options={"x": choices(**{"a_b": {}, "a-b": {}})}), profile("A"))
    assert {slug: each["order"] for slug, each in found.settings["presets"].items()} == {"b": 1, "a": 2}
    entries = get_preset(found, "b")["choices"]["x"]["entries"]
    assert [(slug, each.get("order")) for slug, each in entries.items()] == [("a-b", None), ("a_b", None)]


def test_keys_that_are_no_slugs_get_slugs_in_order(convert: Convert):
    found = convert(profile(options={"B b": choices(Z={}, a={}), "a": choices(x={})}))
    (first, second) = get_preset(found)["choices"].items()
    assert [(name, each["order"]) for name, each in (first, second)] == [("b-b", 1), ("a", 2)]
    assert [(slug, each["order"]) for slug, each in first[1]["entries"].items()] == [("z", 1), ("a", 2)]
    assert found.convert_options({"profile": "p", "B b": "Z", "a": "x"}) == {
        "v": 1,
        "preset": "p",
        "preset_choices": {"b-b": "z", "a": "x"},
    }


IMAGE_INPUT = {
    **UNLISTED,
    "display_name": "Other image",
    "validation_regex": "^q/",
    "validation_message": "Of q only",
}


def test_an_unlisted_image_becomes_a_custom_image(convert: Convert):
    found = convert(profile(options={"image": {"unlisted_choice": IMAGE_INPUT}}))
    assert get_preset(found)["choices"]["image"] == {
        "display_name": "image",
        "custom_image": {"display_name": "Other image", "pattern": "^q/", "message": "Of q only"},
    }
    assert found.convert_options({"profile": "p", "image--unlisted-choice": "q/x"}) == {
        "v": 1,
        "preset": "p",
        "custom_image": "q/x",
    }


def test_other_traits_of_an_unlisted_image_are_kept(convert: Convert):
    unlisted = {"enabled": True, "kubespawner_override": {"image": "{value}", "default_url": "/lab"}}
    found = convert(profile(options={"image": {"unlisted_choice": unlisted}}))
    assert get_preset(found)["choices"]["image"]["custom_image"] == {"kubespawner_override": {"default_url": "/lab"}}


@pytest.mark.parametrize(
    ("unlisted", "cause"),
    [
        pytest.param({"kubespawner_override": {"default_url": "{value}"}}, UNLISTED_CHOICE, id="other trait"),
        pytest.param({"kubespawner_override": {"image": "q/x:{value}"}}, UNLISTED_CHOICE, id="part of an image"),
        pytest.param({"kubespawner_override": {}}, UNLISTED_CHOICE, id="nothing"),
        pytest.param(
            {"kubespawner_override": {"image": "{value}", "mem_limit": "1G"}}, UNLISTED_CHOICE, id="with an amount"
        ),
        pytest.param(
            {"kubespawner_override": {"image": "{value}", "environment": {"A": "{value}"}}}, UNLISTED_CHOICE, id="twice"
        ),
        pytest.param({**UNLISTED, "validation_regex": "("}, NEVER_STARTED, id="bad pattern"),
        pytest.param({**UNLISTED, "allowed_groups": ["a"]}, RESTRICTED_IMAGE, id="for some users"),
    ],
)
def test_unlisted_choices_without_equivalent_are_named(convert: Convert, unlisted: Any, cause: Any):
    options = {"image": {**choices(a={"image": "q/x"}), "unlisted_choice": {"enabled": True, **unlisted}}}
    found = convert(profile(options=options))
    assert "custom_image" not in get_preset(found)["choices"]["image"]
    assert list_causes(found) == [cause]
    assert found.convert_options({"profile": "p", "image--unlisted-choice": "q/x"}) is None


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param({"a": {"unlisted_choice": UNLISTED}, "b": {"unlisted_choice": UNLISTED}}, ["a"], id="two fields"),
        pytest.param({"a": {"unlisted_choice": UNLISTED}, "b": choices(x={"image": "q/x"})}, [], id="replaced later"),
        pytest.param({"a": choices(x={"image": "q/x"}), "b": {"unlisted_choice": UNLISTED}}, ["b"], id="replaces"),
    ],
)
def test_a_preset_has_one_image_that_users_enter(convert: Convert, options: Any, kept: list[str]):
    options = {key: {**choices(y={}), **each} for key, each in options.items()}
    found = convert(profile(options=options))
    built = get_preset(found)["choices"]
    assert [name for name, each in built.items() if "custom_image" in each] == kept
    assert list_causes(found) == ([] if kept == ["b"] else [SECOND_IMAGE])


def test_a_type_of_gpu_may_depend_on_the_choice(convert: Convert):
    options = {"gpu": choices(a={"node_selector": {"pool": "a"}, **GPU}, b={}, c={"node_selector": {"pool": "c"}})}
    preset = get_preset(convert(profile(options=options)))
    entries = preset["choices"]["gpu"]["entries"]
    assert ("gpu" in preset, [each.get("gpu") for each in entries.values()]) == (False, ["gpu-a", None, None])


@pytest.mark.parametrize(
    ("unlisted", "expected"),
    [
        pytest.param({}, [None, ("gpu", 1), (None, None)], id="every server has an entry"),
        pytest.param(UNLISTED, ["gpu", (None, None), ("", 0)], id="some servers have none"),
    ],
)
def test_an_entry_may_take_the_gpu_away(convert: Convert, unlisted: Any, expected: Any):
    option = {**choices(a={}, b={"extra_resource_limits": {"nvidia.com/gpu": None}}), "unlisted_choice": unlisted}
    preset = get_preset(convert(profile(options={"gpu": option}, **GPU)))
    entries = preset["choices"]["gpu"]["entries"].values()
    assert [preset.get("gpu"), *((each.get("gpu"), each.get("gpu_count")) for each in entries)] == expected


def test_labels_that_another_choice_changes_tell_no_type(convert: Convert):
    options = {
        "count": choices(one=GPU, two={"extra_resource_limits": {"nvidia.com/gpu": 2}}),
        "nodes": choices(a={"node_selector": {"pool": "a"}}, b={"node_selector": {"pool": "b"}}),
    }
    found = convert(profile(options=options, node_selector={"pool": "x", "disk": "ssd"}))
    preset = get_preset(found)
    counts = preset["choices"]["count"]["entries"]
    assert [(each["gpu"], each["gpu_count"]) for each in counts.values()] == [("gpu-ssd", 1), ("gpu-ssd", 2)]
    assert [("gpu" in each) for each in preset["choices"]["nodes"]["entries"].values()] == [False, False]
    assert found.settings["gpus"]["gpu-ssd"]["match"] == {"disk": "ssd"}


def test_two_kinds_of_gpus_by_two_choices_are_refused(convert: Convert):
    options = {"a": choices(x=GPU), "b": choices(y={"extra_resource_limits": {"google.com/tpu": 1}})}
    assert SEVERAL_ACCELERATORS in list_causes(convert(profile(options=options)))


@pytest.mark.parametrize(
    ("override", "cause"),
    [
        pytest.param({"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}, **GPU}, [VISIBLE_GPUS], id="own GPU"),
        pytest.param({"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}}, [SHARED_GPUS], id="no GPU"),
        pytest.param({"environment": {"NVIDIA_VISIBLE_DEVICES": "void"}}, [], id="hidden"),
    ],
)
def test_variables_that_show_gpus_are_named(convert: Convert, override: Any, cause: list[Any]):
    found = convert(profile(**override))
    assert (list_causes(found), "kubespawner_override" in get_preset(found)) == (cause, False)


def test_variables_of_the_hub_that_show_gpus_are_named(convert: Convert):
    hidden = {"environment": {"NVIDIA_VISIBLE_DEVICES": "void"}}
    found = convert(profile(), profile("Q", **hidden), environment={"NVIDIA_VISIBLE_DEVICES": "all", "A": "b"})
    assert [(note.cause, note.profile) for note in found.notes] == [(SHARED_GPUS, "P")]


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        pytest.param({"kubespawner_override": {"default_url": 1}}, NEVER_STARTED, id="refused value"),
        pytest.param({"allowed_groups": []}, NO_USER_ALLOWED, id="no user"),
        pytest.param({"profile_options": {"o": {}}}, NO_ENTRY, id="no choice"),
        pytest.param({"profile_options": {"o": choices(a={"default_url": 1})}}, NEVER_STARTED, id="no good choice"),
        pytest.param({"kubespawner_override": {"mem_limit": "1G", "mem_guarantee": "2G"}}, NEVER_STARTED, id="request"),
        pytest.param(
            {"profile_options": {"o": choices(a={"mem_limit": "1G", "mem_guarantee": "2G"})}},
            NEVER_STARTED,
            id="request of a choice",
        ),
        pytest.param({"kubespawner_override": REQUESTED}, NEVER_STARTED, id="GPUs without a limit"),
        pytest.param(
            {"kubespawner_override": REQUESTED, "profile_options": {"o": choices(a={**GPU, "cpu_limit": 2})}},
            NEVER_STARTED,
            id="GPUs with another limit of a choice",
        ),
        pytest.param({"slug": "p"}, SAME_SLUG, id="same slug"),
    ],
)
def test_profiles_that_no_user_had_are_left_out(convert: Convert, bad: Any, cause: Any):
    found = convert(profile(), {"display_name": "Bad", **bad})
    assert list(found.settings["presets"]) == ["p"]
    assert list_causes(found)[0] == cause
    assert found.convert_options({"profile": "bad"}) is None


def test_gpus_may_be_requested_with_an_equal_limit(convert: Convert):
    equal = {"extra_resource_limits": {"nvidia.com/gpu": "2"}, **REQUESTED}
    found = convert(profile(**equal), profile("Q", options={"o": choices(a=equal)}))
    assert (list(found.settings["presets"]), found.notes) == (["p", "q"], ())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([{}, {}, {}], ["A → B"], id="the first"),
        pytest.param([{}, {"default": True}, {}], [], id="another one"),
        pytest.param([{"default": True}, {}, {}], ["A → B"], id="an explicit one"),
    ],
)
def test_another_default_is_named(convert: Convert, flags: list[dict[str, Any]], expected: list[str]):
    profiles = [profile("A", default_url=1), profile("B"), profile("C")]
    found = convert(*({**each, **flag} for each, flag in zip(profiles, flags, strict=True)))
    assert [note.detail for note in found.notes if note.cause == DEFAULT_CHANGED] == expected


@pytest.mark.parametrize(
    ("first", "order", "expected"),
    [
        pytest.param({"allowed_users": ["ada"]}, ["B", "C"], ["C"], id="after another profile"),
        pytest.param({"allowed_users": ["ada"]}, ["C", "B"], [], id="next one"),
        pytest.param({}, ["B", "C"], [], id="the first is for every user"),
    ],
)
def test_a_later_default_is_named_where_users_without_the_first_one_got_it(
    convert: Convert, first: dict[str, Any], order: list[str], expected: list[str]
):
    others = [{**profile(name), "default": name == "C"} for name in order]
    found = convert({**profile("A"), "default": True, **first}, *others)
    assert [note.profile for note in found.notes if note.cause == LATER_DEFAULT] == expected


def test_without_any_profile_nothing_is_converted(convert: Convert):
    with pytest.raises(ProfileListError, match=r"has no profile with which a server could start\. P: "):
        convert(profile(default_url=1))


def test_profiles_with_the_same_slug_may_be_for_different_groups(convert: Convert):
    found = convert({**profile(), "allowed_groups": ["a"]}, {**profile(), "allowed_groups": ["b"]})
    assert {slug: each["allowed_groups"] for slug, each in found.settings["presets"].items()} == {
        "p": ["a"],
        "p-2": ["b"],
    }


def test_choices_keep_who_may_have_them(convert: Convert):
    option = {"choices": {"a": {"allowed_groups": ["g", "g"], "allowed_users": ["u"]}, "b": {"allowed_groups": []}}}
    found = convert(profile(options={"o": option}))
    assert get_preset(found)["choices"]["o"]["entries"] == {
        "a": {"display_name": "a", "allowed_groups": ["g"], "allowed_users": ["u"]}
    }
    assert list_causes(found) == [NO_USER_ALLOWED]
    assert found.convert_options({"profile": "p", "o": "b"}) is None


def test_long_texts_are_cut(convert: Convert):
    found = convert({**profile("N" * 201), "slug": "p", "description": "d" * 2001})
    preset = get_preset(found)
    assert (len(preset["display_name"]), len(preset["description"]), list_causes(found)) == (200, 2000, [SHORTENED] * 2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {}, id="no choice"),
        pytest.param({"profile": "p"}, {"v": 1, "preset": "p"}, id="profile"),
        pytest.param(
            {"profile": "p", "size": "s"}, {"v": 1, "preset": "p", "preset_choices": {"size": "s"}}, id="entry"
        ),
        pytest.param({"profile": "p", "size": "x"}, None, id="unknown entry"),
        pytest.param({"profile": "q"}, None, id="unknown profile"),
    ],
)
def test_old_user_options_have_new_ones(convert: Convert, options: Any, expected: Any):
    assert convert(profile(options={"size": choices(s={})})).convert_options(options) == expected


def test_choices_get_readable_names(convert: Convert):
    option = {"display_name": "Size", "choices": {"s": {"display_name": "Small"}}, "unlisted_choice": UNLISTED}
    found = convert(profile("My server", options={"size": option}))
    labels = [{}, {"profile": "my-server", "size": "s"}, {"profile": "my-server", "size--unlisted-choice": "q/x"}]
    assert [found.describe_options(each) for each in labels] == [
        "No choice",
        "My server · Size: Small",
        "My server · Size: q/x",
    ]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, id="of the API"),
        pytest.param({"node_selector": {"disk": "ssd"}}, id="of the client"),
    ],
)
def test_labels_that_the_pod_does_not_get_tell_no_type(convert: Convert, config: Any):
    found = convert(profile(node_selector={"pool": "a"}, **GPU), extra_pod_config=config)
    assert (get_preset(found)["gpu"], found.settings["gpus"]["gpu"].get("match")) == ("gpu", None)
