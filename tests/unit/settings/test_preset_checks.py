"""Presets that say all that a profile says: their problems, and their place in the catalog."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.model import NO_LIMIT, Catalog, ImageInput
from gpuspawner.core.catalog.policy_model import Access, Person
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.request.pod_requirements import PodRequirements, place
from gpuspawner.core.request.selection import validate
from gpuspawner.settings import Settings, merge_values

T4 = {"resource": "nvidia.com/gpu", "match": {"nvidia.com/gpu.product": "Tesla-T4"}}
BASE: dict[str, Any] = {
    "discover_gpus": False,
    "images": {
        "torch": {"image": "torch:1", "vendors": ["nvidia"]},
        "r": {"image": "r:1"},
        "rocm": {"image": "x", "vendors": ["amd"]},
    },
    "gpus": {"t4": {**T4, "max_count": 2}},
}
SLUG_RULE = "must be lower-case letters, digits, -, _ and ., at most 63, with a letter or digit at both ends"
SIZES = {"small": {"order": 2, "memory": "4G", "default": True}, "large": {"order": 1, "memory": "16G"}}


def parse(raw: dict[str, Any]) -> ConfiguredCatalog:
    return Settings.parse(merge_values(BASE, raw)).build_configured()


def preset(**keys: Any) -> dict[str, Any]:
    return {"presets": {"p": keys}}


def size(**choice: Any) -> dict[str, Any]:
    return preset(choices={"size": choice})


def problems(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        parse(raw)
    return {problem.field: problem.message for problem in caught.value.problems}


def assemble(raw: dict[str, Any]) -> Catalog:
    settings = Settings.parse(merge_values(BASE, raw))
    return assemble_catalog(settings.build_configured(), Inventory(), table=settings.build_table(), fallback_image="")


def placed(raw: dict[str, Any], **options: Any) -> PodRequirements:
    catalog = assemble(raw)
    return place(validate({"preset": "p", **options}, catalog), catalog)


@pytest.mark.parametrize(
    ("value", "millis"),
    [
        (0.12345, 124),
        ("0.0001", 1),
        (0.1249999999, 125),
        ("1.5m", 2),
        ("100.1m", 101),
        (2, 2000),
        (0.1 + 0.2, 301),
    ],
)
def test_a_fraction_of_a_millicore_is_rounded_up_as_kubernetes_does(value: object, millis: int):
    found = placed(preset(cpu=value, cpu_guarantee=value))
    assert (found.cpu_limit_millis, found.cpu_request_millis) == (millis, millis)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"cpu": 4, "cpu_guarantee": 0.5}, (4000, 500)),
        ({"cpu": "unlimited", "cpu_guarantee": 1}, (NO_LIMIT, 1000)),
        ({"cpu": "unlimited"}, (NO_LIMIT, None)),
        ({"cpu_guarantee": 0}, (None, NO_LIMIT)),
    ],
)
def test_limits_and_guarantees_of_cpu(keys: dict[str, Any], expected: tuple[int | None, int | None]):
    found = placed(preset(**keys))
    assert (found.cpu_limit_millis, found.cpu_request_millis) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"memory": "1.5G", "memory_guarantee": "512M"}, (3 << 29, 1 << 29)),
        ({"memory": 11262164992, "memory_guarantee": 1}, (11262164992, 1)),
        ({"memory": "unlimited"}, (NO_LIMIT, None)),
    ],
)
def test_memory_keeps_its_bytes(keys: dict[str, Any], expected: tuple[int | None, int | None]):
    found = placed(preset(**keys))
    assert (found.memory_limit_bytes, found.memory_request_bytes) == expected


def test_the_default_entry_comes_first_and_the_others_in_order():
    found = parse(size(entries={**SIZES, "gone": {"enabled": False}, "last": {}}, display_name="Memory"))
    choice = found.presets["p"].choices["size"]
    assert ([*choice.entries], choice.display_name) == (["small", "large", "last"], "Memory")
    assert (choice.entries["small"].display_name, choice.entries["small"].options) == ("small", {"memory": "4G"})


def test_a_disabled_list_is_no_choice():
    found = parse(preset(choices={"size": {"enabled": False, "entries": SIZES}}))
    assert (found.presets["p"].choices, found.presets["p"].is_fixed) == ({}, False)


def test_a_text_field_for_an_image():
    field = {"display_name": "Other…", "pattern": "^a", "message": "No."}
    choice = parse(size(custom_image=field)).presets["p"].choices["size"]
    assert choice.custom_image == ImageInput(label="Other…", pattern="^a", message="No.")


ALLOWED = {"allowed_groups": ["Staff", "tutors"], "allowed_users": ["Ada"]}
ACCESS = Access(groups=frozenset({"staff", "tutors"}), users=frozenset({"Ada"}))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(preset(cpu=1), None, id="open"),
        pytest.param(preset(**ALLOWED), {("preset", "p"): ACCESS}, id="preset"),
        pytest.param(
            size(entries={"s": ALLOWED, "t": {}}), {("preset", "p", "size", "s"): ACCESS}, id="entry of a choice"
        ),
        pytest.param({"images": {"torch": ALLOWED}}, {("image", "torch"): ACCESS}, id="image"),
        pytest.param({"gpus": {"t4": ALLOWED}}, {("gpu", "t4"): ACCESS}, id="GPU type"),
        pytest.param(
            preset(allowed_users=["ada"]), {("preset", "p"): Access(users=frozenset({"ada"}))}, id="users only"
        ),
        pytest.param({"presets": {"p": {**ALLOWED, "enabled": False}}}, None, id="preset taken out"),
        pytest.param(
            preset(enabled=False, choices={"size": {"entries": {"s": ALLOWED}}}), None, id="entry of a preset taken out"
        ),
        pytest.param(size(enabled=False, entries={"s": ALLOWED}), None, id="entry of a choice taken out"),
    ],
)
def test_who_may_choose_an_entry_is_policy(raw: dict[str, Any], expected: Any):
    policy = parse(raw).policy
    assert (policy and policy.access) == expected
    assert (policy is not None and policy.depends_on_groups) == any(each.groups for each in (expected or {}).values())


def test_rules_stand_beside_who_may_choose():
    policy = parse({**preset(allowed_groups=["staff"]), "policy": {"default": {"max_gpus": 1}}}).policy
    assert policy is not None
    assert (policy.default.max_gpus, policy.admits(Person(name="ada"), "preset", "p")) == (1, False)


OVERRIDE = {
    "node_selector": {"pool": "a", "other": None},
    "environment": {"A": "1"},
    "default_url": None,
    "extra_pod_config": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        }
    },
}


@pytest.mark.parametrize(
    "raw",
    [
        {"images": {"torch": {"kubespawner_override": OVERRIDE}}},
        {"gpus": {"t4": {"kubespawner_override": OVERRIDE}}, "presets": {"p": {"gpu": "t4"}}},
        preset(kubespawner_override=OVERRIDE),
        size(entries={"s": {"kubespawner_override": OVERRIDE}}),
    ],
    ids=["image", "GPU type", "preset", "entry"],
)
def test_an_override_stays_as_written_with_its_nulls(raw: dict[str, Any]):
    raw = raw if "presets" in raw else {**raw, "presets": {"p": {"image": "torch"}}}
    assert placed(raw).overrides == (OVERRIDE,)


def test_a_null_of_a_later_values_file_takes_out_a_preset_or_a_key():
    raw = merge_values(preset(cpu=4, memory="8G"), {"presets": {"p": {"cpu": None, "choices": None}, "q": None}})
    assert [(slug, each.options) for slug, each in parse(raw).presets.items()] == [("p", {"memory": "8G"})]


@pytest.mark.parametrize(
    ("override", "path", "message"),
    [
        ({"image": "x"}, "image", "must be left out: the choice sets it (image of a preset)"),
        ({"image_spec": "x"}, "image_spec", "must be left out: the choice sets it (image of a preset)"),
        ({"cpu_limit": 4}, "cpu_limit", "must be left out: the choice sets it (cpu of a preset)"),
        ({"cpu_guarantee": 4}, "cpu_guarantee", "must be left out: the choice sets it (cpu_guarantee of a preset)"),
        ({"mem_limit": "4G"}, "mem_limit", "must be left out: the choice sets it (memory of a preset)"),
        (
            {"mem_guarantee": None},
            "mem_guarantee",
            "must be left out: the choice sets it (memory_guarantee of a preset)",
        ),
        ({"profile_list": []}, "profile_list", "must be left out: it must be the same for all servers"),
        ({"namespace": "x"}, "namespace", "must be left out: it must be the same for all servers"),
        ({"policy": {}}, "policy", "must be left out: it must be the same for all servers"),
        ({"settings_files": []}, "settings_files", "must be left out: it must be the same for all servers"),
        (
            {"extra_resource_limits": {"nvidia.com/gpu": 1}},
            "extra_resource_limits.nvidia.com/gpu",
            "must be left out: gpu and gpu_count of a preset set 'nvidia.com/gpu'",
        ),
        (
            {"extra_resource_guarantees": {"google.com/tpu": 4}},
            "extra_resource_guarantees.google.com/tpu",
            "must be left out: gpu and gpu_count of a preset set 'google.com/tpu'",
        ),
        (
            {"extra_resource_limits": {"memory": "4Gi"}},
            "extra_resource_limits.memory",
            "must be left out: memory and memory_guarantee of a preset set it",
        ),
        (
            {"extra_container_config": {"image": "x"}},
            "extra_container_config.image",
            "must be left out: the choice sets it (image of a preset)",
        ),
        (
            {"extra_container_config": {"resources": {"limits": {"amd.com/gpu": "1"}}}},
            "extra_container_config.resources.limits.amd.com/gpu",
            "must be left out: gpu and gpu_count of a preset set 'amd.com/gpu'",
        ),
        (
            {"extra_pod_config": {"containers": [{"name": "a"}]}},
            "extra_pod_config.containers",
            "must be left out: use extra_container_config or extra_containers",
        ),
    ],
)
@pytest.mark.parametrize(
    ("place_", "path_of"),
    [
        (lambda each: {"images": {"torch": each}}, "images.torch"),
        (lambda each: {"gpus": {"t4": each}}, "gpus.t4"),
        (lambda each: {"presets": {"p": each}}, "presets.p"),
        (lambda each: size(entries={"s": each}), "presets.p.choices.size.entries.s"),
        (lambda each: size(custom_image=each), "presets.p.choices.size.custom_image"),
    ],
    ids=["image", "GPU type", "preset", "entry", "image that is named"],
)
def test_an_override_sets_nothing_that_the_choice_decides(
    override: dict[str, Any], path: str, message: str, place_: Any, path_of: str
):
    tpu = {"tpu": {"resource": "google.com/tpu", "vendor": "other"}}
    raw = merge_values({"gpus": tpu}, place_({"kubespawner_override": override}))
    assert problems(raw) == {f"{path_of}.kubespawner_override.{path}": message}


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ({"priority_class_name": "high"}, "priority_class_name"),
        ({"extra_pod_config": {"priorityClassName": "high"}}, "extra_pod_config.priorityClassName"),
        ({"extra_pod_config": {"priority_class_name": "high"}}, "extra_pod_config.priority_class_name"),
    ],
    ids=["trait", "pod", "pod, as in Python"],
)
def test_an_override_sets_no_priority_where_users_pick_one(override: dict[str, Any], path: str):
    raw = preset(kubespawner_override=override)
    assert placed(raw).overrides == (override,)
    low = {"low": {"class": "low", "value": -10}}
    assert placed({**raw, "priorities": {"low": {**low["low"], "enabled": False}}}).overrides == (override,)
    message = "must be left out: the choice sets it (priority of a preset)"
    assert problems({**raw, "priorities": low}) == {f"presets.p.kubespawner_override.{path}": message}


@pytest.mark.parametrize(
    "override",
    [
        {},
        {"extra_resource_limits": {"google.com/tpu": 4, "rdma/hca": 1}},
        {"extra_resource_limits": None, "extra_container_config": {"resources": None}},
        {"extra_container_config": {"securityContext": {"privileged": False}}},
        {"extra_pod_config": {"hostNetwork": True, "initContainers": []}},
    ],
    ids=["nothing", "resources that are no GPU type", "nulls", "a container", "a pod"],
)
def test_everything_else_can_be_overridden(override: dict[str, Any]):
    assert placed(preset(kubespawner_override=override)).overrides == ((override,) if override else ())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"only_presets": True}, {"only_presets": "needs at least one preset"}, id="no preset"),
        pytest.param(
            {"only_presets": True, **preset(enabled=False)},
            {"only_presets": "needs at least one preset"},
            id="no preset is left",
        ),
        pytest.param(
            size(), {"presets.p.choices.size.entries": "must have at least one entry"}, id="nothing to choose"
        ),
        pytest.param(
            size(entries={"a": {"enabled": False}}),
            {"presets.p.choices.size.entries": "must have at least one entry"},
            id="nothing is left to choose",
        ),
        pytest.param(
            size(entries={"a": {"default": True}, "b": {"default": True}}),
            {"presets.p.choices.size.entries": "must have at most one default entry"},
            id="two defaults",
        ),
        pytest.param(
            {"presets": {slug: {"default": True} for slug in "pq"}},
            {"presets": "must have at most one default preset"},
            id="two default presets",
        ),
        pytest.param(
            preset(choices={"Size": {"entries": {"a": {}}}}),
            {"presets.p.choices.Size": SLUG_RULE},
            id="a bad name",
        ),
        pytest.param(
            size(entries={"a:b": {}}),
            {"presets.p.choices.size.entries.a:b": SLUG_RULE},
            id="a bad slug",
        ),
        pytest.param(
            size(custom_image={"pattern": "("}),
            {
                "presets.p.choices.size.custom_image.pattern": "must be a regular expression: missing ), unterminated "
                "subpattern at position 0"
            },
            id="a bad pattern",
        ),
        pytest.param(
            preset(cpu=1, cpu_guarantee=2),
            {"presets.p.cpu_guarantee": "must be at most cpu (1 CPU), not 2 CPUs"},
            id="a guarantee above its limit",
        ),
        pytest.param(
            preset(memory="1G", choices={"size": {"entries": {"a": {"memory_guarantee": "2G"}}}}),
            {"presets.p.choices.size.entries.a.memory_guarantee": "must be at most memory (1 GiB), not 2 GiB"},
            id="a guarantee above the preset's limit",
        ),
        pytest.param(
            preset(cpu_guarantee=2, choices={"size": {"entries": {"a": {}, "b": {"cpu": 1}}}}),
            {"presets.p.choices.size.entries.b.cpu": "CPU: the preset reserves 2 CPUs, more than its limit of 1 CPU."},
            id="a limit below the preset's guarantee",
        ),
        pytest.param(
            preset(image="gone", choices={"size": {"entries": {"a": {}, "b": {"cpu": 1}}}}),
            {"presets.p.image": "There is no image 'gone'. Offered: torch, r, rocm."},
            id="a problem of the preset",
        ),
        pytest.param(
            size(entries={"a": {"image": "gone"}, "b": {"image": "gone"}, "c": {}}),
            {
                f"presets.p.choices.size.entries.{slug}.image": "There is no image 'gone'. Offered: torch, r, rocm."
                for slug in "ab"
            },
            id="problems of entries",
        ),
        pytest.param(
            preset(image="rocm", choices={"size": {"entries": {"a": {"gpu": "t4", "gpu_count": 3}}}}),
            {
                "presets.p.choices.size.entries.a.gpu_count": "The number of GPUs (T4) in one server must be 1 to 2,"
                " not 3.",
                "presets.p.choices.size.entries.a.gpu": "rocm is made for AMD GPUs. Choose another image, or a GPU"
                " other than T4.",
            },
            id="an entry that does not fit the preset",
        ),
        pytest.param(
            {"presets": {slug: {"image": "gone", "kubespawner_override": {"uid": 1}} for slug in "pq"}},
            {f"presets.{slug}.image": "There is no image 'gone'. Offered: torch, r, rocm." for slug in "pq"},
            id="the same problem twice",
        ),
        pytest.param(
            preset(choices={name: {"custom_image": {}} for name in "ab"}),
            {"presets.p.custom_image": "b: name an image."},
            id="two images to name",
        ),
        pytest.param(
            preset(shared_memory="1G", memory="unlimited"),
            {"presets.p.shared_memory": "Shared memory cannot be chosen here."},
            id="a field that is not offered",
        ),
    ],
)
def test_a_sentence_says_what_is_wrong(raw: dict[str, Any], expected: dict[str, str]):
    assert problems(raw) == expected


def test_presets_of_a_gpu_type_that_nodes_may_add_are_no_problem():
    raw = {"discover_gpus": True, **preset(choices={"gpu": {"entries": {"a": {"gpu": "l4"}, "b": {"gpu": "h100"}}}})}
    assert [*parse(raw).presets["p"].choices["gpu"].entries] == ["a", "b"]


@pytest.mark.parametrize(
    "entries", [{}, {"torch": {"image": "torch"}}], ids=["only a text field", "entries beside a text field"]
)
def test_a_preset_in_which_an_image_can_be_named_is_no_problem(entries: dict[str, Any]):
    found = parse(size(entries=entries, custom_image={"pattern": "^quay"}))
    assert [*found.presets["p"].choices["size"].entries] == [*entries]


def test_an_accelerator_of_another_vendor_on_nodes_without_a_label():
    gpus = {
        "tpu": {
            "resource": "google.com/tpu",
            "vendor": "other",
            "match": {"cloud.google.com/gke-tpu-topology": "2x4", "shared": []},
            "tolerations": [],
            "max_count": 8,
        }
    }
    found = placed({"gpus": gpus, **preset(image="r", gpu="tpu", gpu_count=8)})
    assert found.extended_resources == {"google.com/tpu": 8}
    assert found.node_selector == {"cloud.google.com/gke-tpu-topology": "2x4"}
    assert [(each.key, each.operator) for each in found.required] == [("shared", "DoesNotExist")]
    # GPUs of all known vendors are hidden from it.
    assert "NVIDIA_VISIBLE_DEVICES" in found.environment


def test_the_vendor_must_be_said_where_the_resource_does_not_tell():
    assert problems({"gpus": {"tpu": {"resource": "google.com/tpu"}}}) == {
        "gpus.tpu.vendor": "is required: 'google.com/tpu' does not tell whose GPU it is"
    }


@pytest.mark.parametrize(
    ("own", "member", "expected"),
    [
        ({}, {}, {}),
        ({"uid": 1}, {"uid": 2}, {"uid": 1}),
        ({}, {"uid": 2}, {"uid": 2}),
    ],
    ids=["none", "its own", "that of its types"],
)
def test_a_combined_type_has_its_own_override_or_that_of_its_types(own: Any, member: Any, expected: Any):
    gpus = {
        "t4": {"kubespawner_override": member},
        "l4": {**T4, "kubespawner_override": member},
        "any": {"any_of": ["t4", "l4"], "kubespawner_override": own},
    }
    assert assemble({"gpus": gpus}).gpus["any"].overrides == expected


@pytest.mark.parametrize(
    ("combined", "discovers"),
    [
        ({"any_of": ["t4", "l4"]}, False),
        ({"any_of": ["t4", "found"]}, True),
        ({"any_of": ["found", "t4"]}, True),
        ({"resource": "nvidia.com/gpu", "min_memory": "8Gi"}, False),
    ],
    ids=["any_of", "with a discovered type", "after a discovered type", "min_memory"],
)
def test_types_with_different_overrides_need_one_for_all(combined: dict[str, Any], discovers: bool):
    t4 = {"memory": "16Gi", "kubespawner_override": {"uid": 1}}
    gpus = {"t4": t4, "l4": {**T4, "memory": "24Gi"}, "any": combined}
    assert problems({"gpus": gpus, "discover_gpus": discovers}) == {
        "gpus.any.kubespawner_override": "is required, because its types have different ones"
    }


def test_a_type_with_less_memory_may_have_another_override():
    gpus = {
        "t4": {**T4, "memory": "16Gi", "kubespawner_override": {"uid": 1}},
        "l4": {**T4, "memory": "24Gi"},
        "any": {"resource": "nvidia.com/gpu", "min_memory": "20Gi"},
    }
    assert [each.slug for each in assemble({"gpus": gpus}).gpus["any"].members] == ["l4"]
