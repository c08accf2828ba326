from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.settings import Settings
from gpuspawner.settings.profiles.profile_list import ConvertedProfiles, convert_profile_list

PRODUCT = "nvidia.com/gpu.product"
T4 = {"extra_resource_limits": {"nvidia.com/gpu": "1"}, "node_selector": {PRODUCT: "Tesla-T4"}}

USUAL = {"cpu_limit": 1, "mem_limit": "1G"}
NO_LIMIT = (
    "{}: {} has no limit; every server has one here, which without one in the preset is what the form selects at first."
)


BOTH: dict[str, Any] = {
    "images": {
        "scipy-1": {"display_name": "scipy:1", "image": "q/scipy:1"},
        "torch-1": {"display_name": "torch:1", "image": "q/torch:1"},
    },
    "cpu": {"min": 1, "max": 4, "step": 1, "guarantee": 0.5},
    "memory": {"min": "2G", "max": "16G", "step": "2G", "guarantee": 1.0},
    "gpus": {
        "t4": {
            "display_name": "T4",
            "resource": "nvidia.com/gpu",
            "match": {PRODUCT: ["Tesla-T4"]},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "environment": {"A": "1"},
            "runtime_class": "nvidia",
            "start_timeout": 900,
            "max_count": 1,
        }
    },
    "presets": {
        "small": {
            "display_name": "Small",
            "description": "CPU only",
            "image": "scipy-1",
            "cpu": 1,
            "memory": "2G",
        },
        "with-gpu": {
            "display_name": "With GPU",
            "image": "torch-1",
            "cpu": 4,
            "memory": "16G",
            "gpu": "t4",
            "gpu_count": 1,
        },
    },
    "discover_gpus": False,
}


def converted(**override: Any) -> ConvertedProfiles:
    return convert_profile_list([{"display_name": "P", "kubespawner_override": override}], defaults=USUAL)


def test_profiles_become_images_bounds_gpu_types_and_presets():
    small = {"image": "q/scipy:1", "cpu_limit": 1, "cpu_guarantee": 0.5, "mem_limit": "2G", "mem_guarantee": "2G"}
    big = {
        **small,
        **T4,
        "image": "q/torch:1",
        "cpu_limit": 4,
        "cpu_guarantee": 2,
        "mem_limit": "16G",
        "mem_guarantee": "16G",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "environment": {"A": "1"},
        "extra_pod_config": {"runtimeClassName": "nvidia"},
        "start_timeout": 900,
    }
    found = convert_profile_list(
        [
            {"display_name": "With GPU", "kubespawner_override": big},
            {"display_name": "Small", "description": "CPU only", "default": True, "kubespawner_override": small},
        ]
    )
    assert found == ConvertedProfiles(settings=BOTH, notes=())


def test_people_may_still_write_an_image_of_their_own():
    unlisted = {"enabled": True, "kubespawner_override": {"image": "{value}"}}
    profile = {"display_name": "P", "profile_options": {"image": {"unlisted_choice": unlisted}}}
    assert convert_profile_list([profile]) == ConvertedProfiles(
        settings={"custom_images": {"allowed": True}, "presets": {"p": {"display_name": "P"}}, "discover_gpus": False},
        notes=tuple(NO_LIMIT.format("P", name) for name in ("cpu", "memory")),
    )


def test_the_same_gpu_in_several_profiles_is_one_type_with_the_largest_count():
    four = {**T4, "extra_resource_limits": {"nvidia.com/gpu": 4}}
    profiles = [{"display_name": str(n), "kubespawner_override": each} for n, each in enumerate((T4, four))]
    assert {slug: gpu["max_count"] for slug, gpu in convert_profile_list(profiles).settings["gpus"].items()} == {
        "t4": 4
    }


def test_other_nodes_are_another_type():
    other = {**T4, "node_selector": {"pool": "a"}}
    profiles = [{"display_name": str(n), "kubespawner_override": each} for n, each in enumerate((T4, other))]
    assert list(convert_profile_list(profiles).settings["gpus"]) == ["t4", "gpu"]


def test_the_same_nodes_with_something_else_there_are_another_type():
    other = {**T4, "tolerations": [{"key": "dedicated", "operator": "Exists"}], "environment": {"A": "1"}}
    found = convert_profile_list(
        [{"display_name": str(n), "kubespawner_override": each} for n, each in enumerate((T4, other))]
    )
    assert [preset["gpu"] for preset in found.settings["presets"].values()] == ["t4", "t4-2"]
    assert found.settings["gpus"]["t4-2"]["environment"] == {"A": "1"}


def test_amounts_off_the_grid_are_rounded_up_and_said():
    profiles = [{"display_name": each, "kubespawner_override": {"cpu_limit": each}} for each in ("0.333", "2")]
    found = convert_profile_list(profiles, defaults=USUAL)
    assert found.settings["cpu"] == {"min": 0.1, "max": 2, "step": 0.1}
    assert [preset["cpu"] for preset in found.settings["presets"].values()] == [0.4, 2]
    assert found.notes == ("0.333: cpu 0.333 becomes 0.4.",)


@pytest.mark.parametrize(
    ("override", "note"),
    [
        (
            {"storage_capacity": "1Ti"},
            "P: storage_capacity cannot differ by choice here; set it on KubeSpawner for all.",
        ),
        (
            {"node_selector": {"a": "b"}},
            "P: node_selector cannot differ by choice here; set it on KubeSpawner for all.",
        ),
        (
            {**T4, "extra_pod_config": {"hostIPC": True}},
            "P: extra_pod_config cannot differ by choice here; set it on KubeSpawner for all.",
        ),
        (
            {**T4, "environment": {"A": "{username}", "B": None}},
            "P: environment A left out: with braces, or no text, which here is the same for everybody; "
            "set it on KubeSpawner for all.",
        ),
        (
            {"extra_resource_limits": {"smarter-devices/fuse": 1}},
            "P: extra_resource_limits of smarter-devices/fuse cannot differ by choice here; "
            "set it on KubeSpawner for all.",
        ),
        ({"mem_limit": "{memory}"}, "P: mem_limit is no plain amount, which is left out."),
        ({"image": "i:{tag}"}, "image i:{tag}: it is put together when a server starts, which is left out."),
        (
            {"extra_resource_limits": {"amd.com/gpu": 1}},
            "P: names no node, so its GPU type gpu is any node with amd.com/gpu.",
        ),
        (
            {**T4, "extra_resource_limits": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1}},
            "P: asks for several GPU resources; only nvidia.com/gpu is kept.",
        ),
    ],
)
def test_what_is_not_carried_over_is_said(override: dict[str, Any], note: str):
    assert converted(**override).notes == (note,)


WITH_AND_WITHOUT = [
    {"display_name": "Own", "kubespawner_override": {"image": "q/torch:1"}},
    {"display_name": "Usual", "kubespawner_override": {}},
]


def test_profiles_without_an_image_have_kubespawners():
    found = convert_profile_list(WITH_AND_WITHOUT, default_image="q/base:1", defaults=USUAL)
    assert {slug: preset["image"] for slug, preset in found.settings["presets"].items()} == {
        "own": "torch-1",
        "usual": "base-1",
    }
    assert found.notes == ()


def test_where_that_is_not_known_it_is_said():
    note = "Some profiles name no image: add KubeSpawner's own to images, and to their presets."
    assert convert_profile_list(WITH_AND_WITHOUT, defaults=USUAL).notes == (note,)
    assert convert_profile_list(WITH_AND_WITHOUT[1:], defaults=USUAL).notes == ()


def test_the_largest_of_different_guarantees_holds_and_that_is_said():
    profiles = [{"display_name": str(n), "kubespawner_override": {"cpu_limit": 2, "cpu_guarantee": n}} for n in (1, 2)]
    found = convert_profile_list(profiles, defaults=USUAL)
    assert found.settings["cpu"]["guarantee"] == 1.0
    assert found.notes == (
        "cpu: profiles guarantee 0.50 to 1.00 of the limit; one fraction holds for all here, the largest.",
    )


def test_profiles_without_amounts_have_kubespawners():
    small = {"cpu_limit": 1, "mem_limit": "2G", "mem_guarantee": None}
    profiles = [{"display_name": "Small", "kubespawner_override": small}, {"display_name": "GPU"}]
    found = convert_profile_list(profiles, defaults={"cpu_limit": 8, "mem_limit": "16G", "mem_guarantee": "4G"})
    assert found.settings == {
        "cpu": {"min": 1, "max": 8, "step": 1},
        "memory": {"min": "2G", "max": "16G", "step": "2G", "guarantee": 0.25},
        "presets": {
            "small": {"display_name": "Small", "cpu": 1, "memory": "2G"},
            "gpu": {"display_name": "GPU", "cpu": 8, "memory": "16G"},
        },
        "discover_gpus": False,
    }
    assert found.notes == ()


def test_a_profile_without_a_limit_beside_others_is_named():
    found = convert_profile_list([{"display_name": "Free"}, {"display_name": "Small", "kubespawner_override": USUAL}])
    assert found.settings["presets"]["free"] == {"display_name": "Free"}
    assert found.notes == tuple(NO_LIMIT.format("Free", name) for name in ("cpu", "memory"))


def test_many_without_a_limit_are_told_in_one_sentence():
    found = convert_profile_list([{"display_name": str(n)} for n in range(7)], defaults={"cpu_limit": 1})
    assert found.notes == (NO_LIMIT.format("0; 1; 2; 3; 4 and 2 more", "memory"),)


@pytest.mark.parametrize("override", [{"image": "a/b:1"}, T4])
def test_nobody_gets_gpus_that_no_profile_offered(override: dict[str, Any]):
    assert converted(**override).settings["discover_gpus"] is False


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ({"tolerations": [{"key": "a", "operator": "Perhaps"}]}, "gpus.t4.tolerations"),
        ({"environment": {"a b": "1"}}, "gpus.t4.environment"),
        ({"extra_pod_config": {"runtimeClassName": "Not A Name"}}, "gpus.t4.runtime_class"),
        ({"start_timeout": 10**6}, "gpus.t4.start_timeout"),
        ({"extra_resource_limits": {"nvidia.com/gpu": 9999}}, "gpus.t4.max_count"),
    ],
)
def test_what_settings_would_refuse_is_left_out_and_said(override: dict[str, Any], path: str):
    found = converted(**{**T4, **override})
    Settings.parse(found.settings)
    assert [note for note in found.notes if note.startswith(path) and note.endswith("left out.")] != []


def test_a_variable_that_is_refused_takes_no_other_with_it():
    found = converted(**T4, environment={"NVIDIA_VISIBLE_DEVICES": "all", "A": "1"})
    assert found.settings["gpus"]["t4"]["environment"] == {"A": "1"}
    assert [note.partition(" ")[0] for note in found.notes] == ["gpus.t4.environment.NVIDIA_VISIBLE_DEVICES"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 1 << 40)
    | st.floats(allow_nan=True)
    | st.sampled_from(["1", "2G", "512M", "0.25", "", "{username}", "q/i:1", "Tesla-T4", "x" * 300, "ü ß"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", PRODUCT, "key", "a b"]), inner, max_size=3)
    ),
    max_leaves=4,
)
TRAITS = st.sampled_from(
    [
        *(
            "image",
            "cpu_limit",
            "cpu_guarantee",
            "mem_limit",
            "mem_guarantee",
            "extra_resource_limits",
            "node_selector",
        ),
        *("tolerations", "environment", "extra_pod_config", "start_timeout", "storage_capacity"),
    ]
)
OVERRIDES = st.builds(
    lambda gpu, values: {**gpu, **values}, st.sampled_from([{}, T4]), st.dictionaries(TRAITS, VALUES, max_size=6)
)
CHOICES = st.dictionaries(st.text(max_size=5), st.fixed_dictionaries({"kubespawner_override": OVERRIDES}), max_size=3)
UNLISTED = st.fixed_dictionaries(
    {"enabled": st.booleans(), "kubespawner_override": st.sampled_from([{"image": "{value}"}, {}]) | VALUES},
    optional={"validation_regex": st.sampled_from(["^.+:.+$", "^quay", "("]) | VALUES},
)
PROFILES = st.lists(
    st.fixed_dictionaries(
        {"kubespawner_override": OVERRIDES},
        optional={
            "display_name": st.text(max_size=250),
            "profile_options": st.dictionaries(
                st.text(max_size=3),
                st.fixed_dictionaries({"choices": CHOICES}, optional={"unlisted_choice": UNLISTED}),
                max_size=2,
            ),
        },
    ),
    max_size=4,
)


@given(PROFILES, st.dictionaries(TRAITS, VALUES, max_size=3))
def test_whatever_stands_in_a_profile_list_the_result_is_valid_settings(
    profiles: list[dict[str, Any]], usual: dict[str, Any]
):
    Settings.parse(convert_profile_list(profiles, defaults=usual).settings)
