"""Who may start which fixed preset: allowed groups and users, limits of CPU and memory, and quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import (
    NO_LIMIT,
    Catalog,
    ImageInput,
    OwnAmount,
    OwnResources,
    Preset,
    PresetChoice,
    PresetVariant,
)
from gpuspawner.core.catalog.policy_model import UNLIMITED, Access, AccessKey, AmountRange, Policy, Rule
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy.admission import Admission, admit
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.presets import build_variant, pick_default_entries
from gpuspawner.core.request.selection import select_usable_presets
from tests.unit.core.policies import CATALOG, GIB, allowed

STAFF, TUTORS, ADA = (
    Access(groups=frozenset({"staff"})),
    Access(groups=frozenset({"tutors"})),
    Access(users=frozenset({"ada"})),
)
OWN = "quay.io/acme/own:1"


def entry(slug: str, **options: Any) -> PresetVariant:
    return PresetVariant(slug=slug, display_name=slug.title(), options=options)


def choice(name: str, *entries: PresetVariant, custom_image: ImageInput | None = None) -> PresetChoice:
    listed = {each.slug: each for each in entries}
    return PresetChoice(name=name, display_name=name.title(), entries=listed, custom_image=custom_image)


def preset(*choices: PresetChoice, slug: str = "p", **options: Any) -> Preset:
    named = {each.name: each for each in choices}
    return Preset(
        slug=slug, display_name=slug.title(), options=options, choices=named, overrides={"default_url": "/lab"}
    )


SIZES = choice("size", entry("small", memory="4G"), entry("large", memory="600G"))


def resolve(
    *presets: Preset, access: Mapping[AccessKey, Access] | None = None, rule: Rule | None = None, **given_: Any
) -> Allowance:
    """Return what ada may have of some presets.

    :param access: of the policy.
    :param given_: for `allowed`.
    """
    policy = Policy(default=rule or Rule(), access=access or {})
    return allowed(policy, presets={each.slug: each for each in presets}, **given_)


def refusal(allowance: Allowance, **options: Any) -> dict[str, str]:
    with pytest.raises(SelectionError) as caught:
        admit({"preset": "p", **options}, allowance)
    assert isinstance(caught.value, PolicyError)
    return {problem.field: problem.code for problem in caught.value.problems}


def sentence(allowance: Allowance, **options: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        admit({"preset": "p", **options}, allowance)
    (problem,) = caught.value.problems
    return problem.message


def entries(allowance: Allowance) -> dict[str, list[str]] | None:
    """Return the entries that are offered in each choice of the preset p, or None without the preset."""
    found = allowance.catalog.presets.get("p")
    return None if found is None else {name: [*each.entries] for name, each in found.choices.items()}


@pytest.mark.parametrize(
    ("access", "groups", "is_admitted"),
    [
        pytest.param(None, (), True, id="open"),
        pytest.param(STAFF, (), False, id="no group"),
        pytest.param(STAFF, ("students",), False, id="another group"),
        pytest.param(STAFF, ("students", "Staff"), True, id="upper and lower case"),
        pytest.param(ADA, (), True, id="a user"),
        pytest.param(replace(STAFF, users=frozenset({"bob"})), (), False, id="another user"),
        pytest.param(replace(STAFF, users=frozenset({"ada"})), (), True, id="a user beside a group"),
        pytest.param(Access(), ("staff",), False, id="no user"),
    ],
)
@pytest.mark.parametrize(
    ("key", "denials"),
    [
        pytest.param(("preset", "p"), {"preset": "preset_not_allowed"}, id="preset"),
        pytest.param(("image", "torch"), {"image": "image_not_allowed"}, id="image"),
        pytest.param(("gpu", "t4"), {"gpu": "gpu_not_allowed"}, id="GPU type"),
        pytest.param(("preset", "p", "size", "large"), {"preset_choices": "preset_not_allowed"}, id="entry"),
    ],
)
def test_a_preset_and_what_it_consists_of_may_be_for_some_users(
    access: Access | None, groups: Iterable[str], is_admitted: bool, key: AccessKey, denials: dict[str, str]
):
    of_key = {} if access is None else {key: access}
    allowance = resolve(preset(SIZES, image="torch", gpu="t4"), access=of_key, groups=groups)
    chosen = {"size": "large"}
    if is_admitted:
        assert admit({"preset": "p", "preset_choices": chosen}, allowance).selection.preset_choices == chosen
        assert entries(allowance) == {"size": ["small", "large"]}
    else:
        assert refusal(allowance, preset_choices=chosen) == denials
        assert entries(allowance) == ({"size": ["small"]} if len(key) > 2 else None)


def test_a_plain_preset_for_others_is_denied():
    plain = replace(preset(cpu=1), overrides={})
    allowance = resolve(plain, access={("preset", "p"): STAFF})
    assert refusal(allowance) == {"preset": "preset_not_allowed"}
    assert sentence(allowance) == "You don't have access to the preset P."


@pytest.mark.parametrize(
    ("options", "code"), [({}, "missing"), ({"preset": "p"}, "unknown_choice")], ids=["no options", "a preset"]
)
def test_the_policy_is_not_to_blame_where_no_preset_is_offered(options: dict[str, Any], code: str):
    allowance = resolve(rule=Rule(max_gpus=1), only_presets=True)
    assert allowance.blocked is None
    with pytest.raises(SelectionError) as caught:
        admit(options, allowance)
    assert [(type(caught.value), each.field, each.code) for each in caught.value.problems] == [
        (SelectionError, "preset", code)
    ]


KINDS = choice("kind", entry("gpu", gpu="t4"), entry("none"))
IMAGES = choice("image", entry("torch", image="torch"), custom_image=ImageInput())


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        pytest.param(None, ("q", {"kind": "none", "image": "torch"}), id="no options"),
        pytest.param({"preset": ""}, ("q", {"kind": "none", "image": "torch"}), id="no preset"),
        pytest.param({"preset": "q"}, ("q", {"kind": "none", "image": "torch"}), id="no entries"),
        pytest.param(
            {"preset": "q", "preset_choices": {"kind": "", "image": "torch"}},
            ("q", {"kind": "none", "image": "torch"}),
            id="one entry",
        ),
        pytest.param({"preset": "q", "custom_image": OWN}, ("q", {"kind": "none"}), id="an image"),
    ],
)
def test_an_omitted_preset_becomes_the_first_that_the_user_may_have(
    options: dict[str, Any] | None, chosen: tuple[str, dict[str, str]]
):
    presets = (preset(slug="p", gpu="t4"), preset(KINDS, IMAGES, slug="q"))
    selection = admit(options, resolve(*presets, rule=Rule(max_gpus=0), only_presets=True)).selection
    assert (selection.preset, dict(selection.preset_choices)) == chosen
    assert selection.custom_image == (options or {}).get("custom_image")


@pytest.mark.parametrize(
    "options", [{"preset": "p"}, {"preset": "q", "preset_choices": {"kind": "gpu"}}], ids=["preset", "entry"]
)
def test_a_named_preset_stays_denied(options: dict[str, Any]):
    presets = (preset(slug="p", gpu="t4"), preset(KINDS, IMAGES, slug="q"))
    assert refusal(resolve(*presets, rule=Rule(max_gpus=0), only_presets=True), **options) == {"gpu": "gpu_not_allowed"}


def test_presets_for_other_users_say_so():
    allowance = resolve(preset(SIZES), access={("preset", "p"): STAFF})
    assert sentence(allowance) == "You don't have access to the preset P."
    inside = resolve(preset(SIZES), access={("preset", "p", "size", "large"): STAFF})
    assert sentence(inside, preset_choices={"size": "large"}) == "You don't have access to the choice Large."


def test_the_next_entry_is_the_default_of_users_who_may_not_have_the_first():
    allowance = resolve(preset(SIZES), access={("preset", "p", "size", "small"): STAFF})
    assert admit({"preset": "p"}, allowance).options["preset_choices"] == {"size": "large"}
    assert refusal(allowance, preset_choices={"size": "small"}) == {"preset_choices": "preset_not_allowed"}


def test_a_preset_of_whose_choice_nothing_is_left_is_left_out():
    access = {("preset", "p", "size", slug): STAFF for slug in SIZES.entries}
    allowance = resolve(preset(SIZES), access=access)
    assert entries(allowance) is None
    assert refusal(allowance) == {"preset_choices": "preset_not_allowed"}


@pytest.mark.parametrize("groups", [None, (), ("staff",)], ids=["unknown", "none", "one"])
def test_groups_that_are_unknown_admit_no_user(groups: Iterable[str] | None):
    allowance = resolve(preset(SIZES), access={("preset", "other"): STAFF}, groups=groups)
    assert (allowance.blocked is None) == (groups is not None)
    if groups is None:
        assert refusal(allowance) == {"": "policy_unreadable"}


def test_unknown_groups_are_no_matter_where_only_users_are_named():
    allowance = resolve(preset(SIZES), access={("preset", "p"): ADA}, groups=None)
    assert admit({"preset": "p"}, allowance).selection.preset == "p"


@pytest.mark.parametrize(
    ("key", "offered"),
    [
        (("gpu", "t4"), ["a100"]),
        (("gpu", "a100"), ["t4"]),
        (("gpu", "either"), ["t4", "a100"]),
    ],
    ids=["a member", "the other member", "itself"],
)
def test_a_combined_type_is_for_those_who_may_have_all_that_it_stands_for(key: AccessKey, offered: list[str]):
    allowance = resolve(preset(gpu="either"), access={key: STAFF})
    assert ([*allowance.catalog.gpus], refusal(allowance)) == (offered, {"gpu": "gpu_not_allowed"})
    assert {each.slug for each in allowance.catalog.hidden} == ({key[1]} - {"either"})


def test_images_and_gpu_types_for_some_are_so_without_presets():
    allowance = resolve(access={("image", "torch"): STAFF, ("gpu", "t4"): STAFF})
    assert ([*allowance.catalog.images], [*allowance.catalog.gpus]) == (["minimal", "r"], ["a100"])
    for options in ({"image": "torch"}, {"gpu": "t4"}):
        with pytest.raises(PolicyError):
            admit(options, allowance)


@pytest.mark.parametrize(
    ("reference", "options"),
    [
        pytest.param("quay.io/torch:1", {}, id="field"),
        pytest.param("quay.io/torch:1", {"preset": "p"}, id="preset"),
    ],
)
def test_an_image_that_is_for_others_is_so_by_its_reference(reference: str, options: dict[str, Any]):
    images = {**CATALOG.images, "torch": replace(CATALOG.images["torch"], image="quay.io/torch:1")}
    named = preset(choice("image", entry("plain"), custom_image=ImageInput()))
    for user, is_admitted in ((STAFF, False), (ADA, True)):
        allowance = resolve(named, access={("image", "torch"): user}, images=images)
        if is_admitted:
            assert admit({**options, "custom_image": reference}, allowance).selection.custom_image == reference
        else:
            assert refusal(allowance, **{"preset": None, **options, "custom_image": reference}) == {
                "custom_image": "custom_image_not_allowed"
            }


@pytest.mark.parametrize(
    ("options", "rule", "own", "expected"),
    [
        ({"cpu": 99}, Rule(), OwnAmount(), None),
        ({"cpu": 99}, Rule(cpu=AmountRange(max=UNLIMITED)), OwnAmount(), None),
        ({"cpu": 4}, Rule(cpu=AmountRange(max=4000)), OwnAmount(), None),
        ({"cpu": 4.001}, Rule(cpu=AmountRange(max=4000)), OwnAmount(), "You may not have more than 4 CPUs."),
        ({"cpu": "unlimited"}, Rule(), OwnAmount(), None),
        ({"cpu": "unlimited"}, Rule(cpu=AmountRange(min=1000)), OwnAmount(), None),
        ({"cpu": "unlimited"}, Rule(cpu=AmountRange(max=4000)), OwnAmount(), "You may not have more than 4 CPUs."),
        ({"cpu": "unlimited"}, Rule(cpu=AmountRange(max=UNLIMITED)), OwnAmount(), None),
        ({"cpu": 0.5}, Rule(cpu=AmountRange(min=1000)), OwnAmount(), "You may not have less than 1 CPU."),
        (
            {"memory": "600G"},
            Rule(memory=AmountRange(max=GIB)),
            OwnAmount(),
            "You may not have more than 1 GiB of memory.",
        ),
        (
            {"memory": "1M"},
            Rule(memory=AmountRange(min=GIB)),
            OwnAmount(),
            "You may not have less than 1 GiB of memory.",
        ),
        ({}, Rule(cpu=AmountRange(max=4000)), OwnAmount(limit=4000), None),
        ({}, Rule(cpu=AmountRange(max=4000)), OwnAmount(limit=8000), None),
    ],
)
def test_amounts_are_bound_by_rules_and_not_by_the_form(
    options: dict[str, Any], rule: Rule, own: OwnAmount, expected: str | None
):
    unbound = {"cpu": None, "own": OwnResources(cpu=own)} if "memory" not in options else {}
    allowance = resolve(preset(**options), rule=rule, **unbound)
    if expected is None:
        assert admit({"preset": "p"}, allowance).selection.preset == "p"
    else:
        assert sentence(allowance) == expected
    assert (entries(allowance) is not None) == (expected is None)


@pytest.mark.parametrize(
    ("options", "left", "own", "is_admitted"),
    [
        ({"cpu": 4}, {"limits.cpu": 4000}, OwnAmount(), True),
        ({"cpu": 4}, {"limits.cpu": 3999}, OwnAmount(), False),
        ({"cpu": "unlimited"}, {"limits.cpu": UNLIMITED}, OwnAmount(), False),
        ({"cpu": 4}, {"requests.cpu": 2000}, OwnAmount(), True),
        ({"cpu": 4}, {"requests.cpu": 1999}, OwnAmount(), False),
        ({"cpu": 4, "cpu_guarantee": 0.1}, {"requests.cpu": 100}, OwnAmount(), True),
        ({"cpu": 4, "cpu_guarantee": 0}, {"requests.cpu": 3999}, OwnAmount(), False),
        ({"cpu": "unlimited", "cpu_guarantee": 0.1}, {"requests.cpu": 100}, OwnAmount(), True),
        ({"cpu": "unlimited", "cpu_guarantee": 0.1}, {"requests.cpu": 99}, OwnAmount(), False),
        ({"cpu": "unlimited"}, {"requests.cpu": 99_000}, OwnAmount(), False),
        ({"cpu": "unlimited"}, {"requests.cpu": 500}, OwnAmount(guarantee=500), True),
        ({"cpu": "unlimited"}, {"requests.cpu": 499}, OwnAmount(guarantee=500), False),
        ({"memory": "600G"}, {"limits.cpu": 2000, "limits.memory": 600 * GIB}, OwnAmount(), True),
        ({"memory": "600G"}, {"limits.memory": 599 * GIB}, OwnAmount(), False),
    ],
)
def test_amounts_are_bound_by_quotas(options: dict[str, Any], left: dict[str, int], own: OwnAmount, is_admitted: bool):
    allowance = resolve(preset(**options), left=left, own=OwnResources(cpu=own), only_presets=True)
    assert (entries(allowance) is not None) == is_admitted
    if not is_admitted:
        assert sentence(allowance) == "The cluster's quota leaves no room for this preset."
        assert [*refusal(allowance).values()] == ["namespace_quota"]


def test_entries_above_a_limit_are_left_out():
    allowance = resolve(
        preset(SIZES, choice("b", entry("x", cpu=99), entry("y", cpu=1))),
        rule=Rule(cpu=AmountRange(max=4000), memory=AmountRange(max=8 * GIB)),
    )
    assert entries(allowance) == {"size": ["small"], "b": ["y"]}
    assert refusal(allowance, preset_choices={"size": "large"}) == {
        "cpu": "cpu_not_allowed",
        "memory": "memory_not_allowed",
    }


@pytest.mark.parametrize("may", [None, True, False])
def test_an_image_can_be_named_in_a_preset_unless_the_user_may_not(may: bool | None):
    named = choice("image", entry("r", image="r"), custom_image=ImageInput(pattern="^quay"))
    allowance = resolve(preset(named), rule=Rule(custom_images=may), custom_images=None)
    offered = allowance.catalog.presets["p"].choices["image"].custom_image
    if may is False:
        assert refusal(allowance, custom_image=OWN) == {"custom_image": "custom_image_not_allowed"}
        assert offered is None
    else:
        assert admit({"preset": "p", "custom_image": OWN}, allowance).placement.image == OWN
        assert offered == ImageInput(pattern="^quay")


def test_a_preset_in_which_only_an_image_can_be_named_is_left_out_for_those_who_may_not():
    allowance = resolve(preset(choice("image", custom_image=ImageInput())), rule=Rule(custom_images=False))
    assert entries(allowance) is None
    assert refusal(allowance, custom_image=OWN) == {"custom_image": "custom_image_not_allowed"}


@pytest.mark.parametrize(("groups", "code"), [(("staff",), None), ((), "preset_not_allowed")], ids=["staff", "others"])
def test_a_user_who_may_have_no_preset_may_start_nothing_where_there_are_only_presets(
    groups: tuple[str, ...], code: str | None
):
    allowance = resolve(preset(), access={("preset", "p"): STAFF}, groups=groups, only_presets=True)
    assert (allowance.blocked.code if allowance.blocked else None) == code
    if code is not None:
        assert refusal(allowance) == {"preset": "preset_not_allowed"}
        assert allowance.blocked is not None
        assert allowance.blocked.message.startswith("None of the presets that are offered is allowed for you.")


def test_the_default_preset_is_one_that_the_user_may_have():
    first, second = preset(slug="first"), replace(preset(slug="second"), is_default=True)
    found = {
        groups: admit(
            None, resolve(first, second, access={("preset", "second"): STAFF}, groups=groups, only_presets=True)
        )
        for groups in ((), ("staff",))
    }
    assert [each.selection.preset for each in found.values()] == ["first", "second"]


def test_bounds_of_the_form_that_leave_nothing_do_not_block_a_list_of_presets():
    rule = Rule(cpu=AmountRange(min=32_000))
    assert resolve(preset(cpu=64), rule=rule).blocked is not None
    assert admit(None, resolve(preset(cpu=64), rule=rule, only_presets=True)).placement.cpu_limit_millis == 64_000


def test_an_unknown_preset_is_no_matter_of_policy():
    with pytest.raises(SelectionError) as caught:
        admit({"preset": "gone"}, resolve(preset(), access={("preset", "p"): STAFF}))
    assert not isinstance(caught.value, PolicyError)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "image": st.sampled_from([*CATALOG.images]),
        "cpu": st.sampled_from([0.124, 1, 4, 99, "unlimited"]),
        "cpu_guarantee": st.sampled_from([0, 0.1, 3]),
        "memory": st.sampled_from(["1G", "8G", "600G", "unlimited"]),
        "memory_guarantee": st.sampled_from(["0B", "1G", "4G"]),
        "gpu": st.sampled_from([None, "t4", "a100", "either"]),
        "gpu_count": st.sampled_from([1, 2, 8]),
        "run_time": st.sampled_from(["1h", "12h"]),
    },
)
SLUGS = ("x", "y")


def choices(name: str) -> st.SearchStrategy[PresetChoice]:
    listed = st.tuples(VALUES, VALUES).map(
        lambda values: [entry(slug, **each) for slug, each in zip(SLUGS, values, strict=True)]
    )
    return st.builds(
        lambda found, size, image: choice(name, *found[: size if image else max(size, 1)], custom_image=image),
        listed,
        st.integers(0, 2),
        st.none() | st.just(ImageInput()),
    )


PRESETS = st.fixed_dictionaries(
    {
        slug: st.builds(
            lambda slug, one, two, values: preset(*one, *two, slug=slug, **values),
            st.just(slug),
            choices("one").map(lambda each: [each]) | st.just([]),
            choices("two").map(lambda each: [each]) | st.just([]),
            VALUES,
        )
        for slug in ("p", "q")
    }
)
ACCESS = st.sampled_from([STAFF, TUTORS, ADA, Access(users=frozenset({"bob"}))])
KEYS: list[AccessKey] = [
    *(("image", slug) for slug in CATALOG.images),
    *(("gpu", slug) for slug in CATALOG.gpus),
    *(("preset", slug) for slug in "pq"),
    *(("preset", slug, name, key) for slug in "pq" for name in ("one", "two") for key in SLUGS),
]
RANGES = st.builds(
    lambda least, most, unit: AmountRange(min=least and least * unit, max=most and most * unit),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 4, 100]),
    st.just(1000),
)
RULES = st.builds(
    lambda cpu, memory, images, custom, gpus: Rule(
        cpu=cpu,
        memory=memory
        and AmountRange(min=memory.min and memory.min * GIB // 1000, max=memory.max and memory.max * GIB // 1000),
        choices=images,
        custom_images=custom,
        max_gpus=gpus,
    ),
    st.none() | RANGES,
    st.none() | RANGES,
    st.just({}) | st.just({"image": frozenset({"torch", "r"})}),
    st.none() | st.booleans(),
    st.none() | st.integers(0, 4),
)


def without_unusable_presets(allowance: Allowance) -> Allowance:
    """Return the allowance for a catalog as `assemble_catalog` builds it."""
    full = allowance.full_catalog
    return replace(allowance, full_catalog=replace(full, presets=select_usable_presets(full.presets, full)))


ALLOWANCES = st.builds(
    lambda presets, access, rule, groups, left, only, unbound, own: without_unusable_presets(
        resolve(
            *presets.values(),
            access=access,
            rule=rule,
            groups=groups,
            left=left,
            only_presets=only,
            own=OwnResources(cpu=own),
            **({"cpu": None, "memory": None} if unbound else {}),
        )
    ),
    PRESETS,
    st.dictionaries(st.sampled_from(KEYS), ACCESS, max_size=6)
    | st.dictionaries(st.sampled_from([key for key in KEYS if key[0] == "preset"]), ACCESS, max_size=6),
    RULES | st.just(Rule()),
    st.sampled_from([(), ("staff",), ("tutors", "staff"), None]),
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "limits.cpu": st.sampled_from([500, 8000]),
            "requests.cpu": st.sampled_from([100, 5000]),
            "limits.memory": st.sampled_from([2 * GIB, 700 * GIB]),
            "requests.nvidia.com/gpu": st.sampled_from([0, 2]),
        },
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([OwnAmount(), OwnAmount(limit=2000, guarantee=1000)]),
)


def list_offered(catalog: Catalog) -> Iterable[dict[str, object]]:
    """Yield user options for each preset of a catalog, with each entry beside the other choices' default entries."""
    for each in catalog.presets.values():
        default = pick_default_entries(each)
        for name, found in {"": None, **each.choices}.items():
            slugs = [None] if found is None else [*found.entries, *([None] if found.custom_image else [])]
            for slug in slugs:
                yield build_variant(each, {**default, name: slug} if name else default)[1]


@given(allowance=ALLOWANCES)
def test_offered_options_are_admitted_and_stay_so(allowance: Allowance):
    assume(allowance.blocked is None)
    for options in list_offered(allowance.catalog):
        admission = admit(options, allowance)
        again = admit(admission.options, allowance)
        assert (again.selection, again.placement) == (admission.selection, admission.placement)


@given(
    allowance=ALLOWANCES,
    slug=st.sampled_from([None, "p", "q"]),
    chosen=st.none() | st.dictionaries(st.sampled_from(["one", "two"]), st.sampled_from([*SLUGS, None])),
    fields=VALUES,
    custom=st.sampled_from([None, None, OWN, "torch"]),
)
def test_denied_presets_are_never_admitted(
    allowance: Allowance, slug: str | None, chosen: Any, fields: dict[str, Any], custom: str | None
):
    options = {"preset": slug, "preset_choices": chosen, "custom_image": custom, **({} if slug else fields)}
    try:
        admission = admit(options, allowance)
    except SelectionError:
        return
    assert_allowed(admission, allowance)


def assert_allowed(admission: Admission, allowance: Allowance) -> None:
    """Check an admitted choice against the policy, without what `Allowance` itself computes."""
    found, pod = admission.selection, admission.placement
    policy, left = allowance.full_catalog.policy, allowance.usage.quota.left if allowance.usage.quota else {}
    assert policy is not None
    keys: list[AccessKey] = [] if found.custom_image else [("image", found.image)]
    if found.preset is not None:
        keys += [("preset", found.preset), *(("preset", found.preset, *each) for each in found.preset_choices.items())]
    if admission.gpu is not None:
        keys += [("gpu", each.slug) for each in (admission.gpu, *admission.gpu.members)]
    assert [key for key in keys if key in policy.access and not policy.access[key].admits(allowance.person)] == []
    assert found.custom_image is None or policy.default.custom_images is not False
    own = allowance.full_catalog.own
    for name, limit, base in (("cpu", pod.cpu_limit_millis, own.cpu), ("memory", pod.memory_limit_bytes, own.memory)):
        amount = base.limit if limit is None else limit
        allowed_range = getattr(policy.default, name) or AmountRange()
        most = min(each for each in (allowed_range.max, left.get(f"limits.{name}"), UNLIMITED) if each is not None)
        assert most == UNLIMITED or NO_LIMIT < (amount or NO_LIMIT) <= most
        assert not amount or amount >= (allowed_range.min or 0)
