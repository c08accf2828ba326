from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.combined_types import combine_types, merge_matches
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.cluster.model import Toleration

GIB = 1 << 30
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"


def gpu(slug: str, **changes: Any) -> GPUType:
    values = {"display_name": slug.upper(), "resource": GPU, "vendor": "nvidia", "match": {PRODUCT: (slug,)}}
    return GPUType(slug=slug, **(values | changes))


A100 = gpu("a100", memory_bytes=40 * GIB, max_count=8, tolerations=(Toleration(key="a"),))
H100 = gpu("h100", memory_bytes=80 * GIB, max_count=4, tolerations=(Toleration(key="a"), Toleration(key="b")))
T4 = gpu("t4", memory_bytes=16 * GIB)
SHARED = gpu("a100-shared", memory_bytes=40 * GIB, unit=UnitKind.SHARED)
UNKNOWN = gpu("old")
MI210 = gpu("mi210", resource="amd.com/gpu", vendor="amd", memory_bytes=64 * GIB)
GPUS = {each.slug: each for each in (A100, H100, T4, SHARED, UNKNOWN, MI210)}


def own(**changes: Any) -> GPUType:
    return GPUType(**({"slug": "any", "display_name": "", "resource": GPU, "vendor": "", "max_count": 0} | changes))


def united(*any_of: str, min_gib: int | None = None, **changes: Any) -> GPUType | None:
    least = None if min_gib is None else min_gib * GIB
    return combine_types(own(any_of=any_of, min_memory_bytes=least, **changes), GPUS)


def members(found: GPUType | None) -> list[str]:
    assert found is not None
    return [each.slug for each in found.members]


def test_any_of_some_types_stands_for_all_of_them():
    assert united("a100", "h100") == GPUType(
        slug="any",
        display_name="A100 or H100",
        resource=GPU,
        vendor="nvidia",
        max_count=8,
        memory_bytes=40 * GIB,
        description="Any of A100 and H100.",
        tolerations=(Toleration(key="a"), Toleration(key="b")),
        any_of=("a100", "h100"),
        members=(A100, H100),
    )


def test_a_memory_takes_what_has_at_least_as_much_and_is_known_to():
    found = united(min_gib=40)
    assert found is not None
    assert (members(found), found.display_name) == (["a100", "h100"], "Any GPU with at least 40 GiB")


def test_shared_gpus_are_a_choice_of_their_own():
    found = united(min_gib=40, unit=UnitKind.SHARED)
    assert (members(found), found and found.display_name) == (["a100-shared"], "Any shared GPU with at least 40 GiB")


def test_types_of_another_resource_cannot_be_asked_for_together():
    assert members(united("a100", "mi210")) == ["a100"]


@pytest.mark.parametrize("any_of", [(), ("gone",)])
def test_a_choice_of_nothing_is_not_offered(any_of: tuple[str, ...]):
    assert united(*any_of) is None


def test_a_fact_unknown_of_one_type_is_unknown_of_all():
    found = united("a100", "old")
    assert found is not None
    assert found.memory_bytes is None


def test_what_the_admin_says_of_the_choice_wins():
    said = {"display_name": "Fast", "max_count": 2, "description": "d", "runtime_class": "own", "shm": 0.1}
    found = united("a100", "h100", **said)
    assert found is not None
    assert {name: getattr(found, name) for name in said} == said


def test_what_the_types_say_is_kept_where_it_can_be():
    one = replace(
        A100,
        environment={"A": "1", "B": "1"},
        runtime_class="nvidia",
        shm=0.5,
        note="n",
        start_timeout_s=5,
        max_runtime_s=9,
    )
    other = replace(H100, environment={"A": "1", "B": "2"}, note="n", start_timeout_s=9, max_runtime_s=5)
    found = combine_types(own(any_of=("a", "b")), {"a": one, "b": other})
    assert found is not None
    kept = (found.environment, found.runtime_class, found.shm, found.note, found.start_timeout_s, found.max_runtime_s)
    assert kept == ({"A": "1"}, "nvidia", 0.5, "n", 9, 5)


RESTRICTED = {"service_account": "restricted"}


@pytest.mark.parametrize(
    ("of_types", "own_word", "expected"),
    [
        ([RESTRICTED, {}], {}, (["b"], {})),
        ([RESTRICTED, {"uid": 1}], {}, None),
        ([RESTRICTED, RESTRICTED], {}, (["a", "b"], RESTRICTED)),
        ([RESTRICTED, {}], {"uid": 2}, (["a", "b"], {"uid": 2})),
    ],
    ids=["one without", "all different", "all the same", "one of its own"],
)
@pytest.mark.parametrize("union", [{"any_of": ("a", "b")}, {"min_memory_bytes": GIB}], ids=["any_of", "min_memory"])
def test_a_choice_leaves_out_types_whose_override_it_would_lose(
    union: Any, of_types: Any, own_word: Any, expected: Any
):
    both = {slug: replace(A100, slug=slug, overrides=each) for slug, each in zip(("a", "b"), of_types, strict=True)}
    found = combine_types(own(overrides=own_word, **union), both)
    assert (None if found is None else (members(found), found.overrides)) == expected


@pytest.mark.parametrize(
    ("of_types", "own_word", "expected"),
    [
        ((True, True), None, True),
        ((True, None), None, None),
        ((True, False), None, None),
        ((None, None), True, True),
        ((True, True), False, False),
    ],
)
def test_a_choice_is_spot_where_all_types_are_or_the_admin_says_so(of_types: Any, own_word: Any, expected: Any):
    gpus = {slug: gpu(slug, spot=spot) for slug, spot in zip("ab", of_types, strict=True)}
    found = combine_types(own(spot=own_word, any_of=("a", "b")), gpus)
    assert found is not None
    assert found.spot is expected


@pytest.mark.parametrize(
    ("of_types", "own_word", "expected"),
    [
        (("NVLink", "NVLink"), None, "NVLink"),
        (("NVLink", None), None, None),
        (("NVLink", "NVLink"), "", ""),
        ((None, None), "Infinity Fabric", "Infinity Fabric"),
    ],
)
def test_a_choice_is_linked_as_all_types_are_or_the_admin_says(of_types: Any, own_word: Any, expected: Any):
    gpus = {slug: gpu(slug, interconnect=link) for slug, link in zip("ab", of_types, strict=True)}
    found = combine_types(own(interconnect=own_word, any_of=("a", "b")), gpus)
    assert found is not None
    assert found.interconnect == expected


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        ([{"p": ("a",)}], {"p": ("a",)}),
        ([{"p": ("a", "b")}, {"p": ("b", "c")}], {"p": ("a", "b", "c")}),
        ([{"p": ("a",), "q": ("x",)}, {"p": ("b",), "q": ("x",)}], {"p": ("a", "b"), "q": ("x",)}),
        ([{"p": ("a",), "q": ("x",)}, {"p": ("b",), "q": ("y",)}], None),
        ([{"p": ("a",)}, {"q": ("b",)}], None),
        ([{"p": ("a",)}, {"p": ("a",), "q": ("b",)}], None),
        ([{"p": ("a",), "q": ()}, {"p": ("a",), "q": ("b",)}], None),
        ([{"p": ("a",)}, {}], None),
    ],
)
def test_matches_are_put_together_where_one_label_differs(matches: list[Any], expected: Any):
    either = own(members=tuple(gpu(str(number), match=match) for number, match in enumerate(matches)))
    assert merge_matches(either) == expected


labels = st.dictionaries(st.sampled_from("pq"), st.sampled_from("abc"))
matches = st.dictionaries(st.sampled_from("pq"), st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(tuple))


@given(st.lists(matches, min_size=1, max_size=3), labels)
def test_a_single_match_has_exactly_the_nodes_of_all(drawn: list[dict[str, tuple[str, ...]]], node: dict[str, str]):
    either = own(members=tuple(gpu(str(number), match=match) for number, match in enumerate(drawn)))
    found = merge_matches(either)
    if found is not None:
        assert gpu("one", match=found).matches_labels(node) == either.matches_labels(node)
