"""The form offers exactly what the gate lets through, whatever policy, usage and quota there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.catalog.policy_model import (
    UNLIMITED,
    Access,
    AccessKey,
    AmountRange,
    GPUPool,
    GPUTypeRule,
    Person,
    Policy,
    Rule,
)
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy.admission import admit
from gpuspawner.core.policy.allowance import Allowance, resolve_allowance
from gpuspawner.core.policy.rules import find_gpu_pools, find_member_rule
from gpuspawner.core.policy.usage import RemainingQuota, ServerUsage, Usage, sum_usage
from gpuspawner.core.request.pod_requirements import place
from gpuspawner.core.request.selection import Selection, build_options, find_preset_errors, validate
from tests.unit.core.policies import CATALOG, GIB, HOUR_S, catalog

CODES = {
    *("gpu_not_allowed", "image_not_allowed", "custom_image_not_allowed", "gpu_quota", "server_quota", "pool_quota"),
    *("namespace_quota", "cpu_not_allowed", "memory_not_allowed", "run_time_not_allowed", "policy_unreadable"),
    "preset_not_allowed",
}
GROUPS = ("ml", "physics", "art", "probation")
SLUGS = st.sampled_from(["t4", "a100", "either", "*"])
LIMIT = st.none() | st.integers(0, 6) | st.just(UNLIMITED)
LENGTH = st.none() | st.sampled_from([60, 20 * 60, HOUR_S, 9 * HOUR_S, UNLIMITED])
TYPE_RULES = st.builds(GPUTypeRule, max_gpus=LIMIT, max_gpus_per_server=LIMIT, max_runtime_s=LENGTH)
SIZES = st.none() | st.integers(1, 20)


def ranges(unit: int) -> st.SearchStrategy[AmountRange]:
    return st.builds(
        lambda least, most: AmountRange(min=least and least * unit, max=most and most * unit),
        SIZES,
        SIZES | st.just(None),
    )


def rules(*, deny: bool = False) -> st.SearchStrategy[Rule]:
    return st.builds(
        Rule,
        images=st.none()
        | st.frozensets(st.sampled_from([*CATALOG.images, "*"]), min_size=1).map(lambda slugs: tuple(sorted(slugs))),
        custom_images=st.none() | st.booleans(),
        gpus=st.none() | st.dictionaries(SLUGS, TYPE_RULES),
        max_gpus=LIMIT,
        max_gpus_per_server=LIMIT,
        max_servers_with_gpu=LIMIT,
        cpu=st.none() | ranges(700),
        memory=st.none() | ranges(3 * GIB),
        max_runtime_s=LENGTH,
        deny=st.just(deny),
    )


def startable(full: Catalog) -> Catalog:
    """Return a catalog without presets that no user could start, as every catalog is."""
    errors = find_preset_errors(full.presets, full)
    return replace(full, presets={slug: preset for slug, preset in full.presets.items() if slug not in errors})


POOLS = st.builds(
    GPUPool,
    slug=st.just("p"),
    display_name=st.just("P"),
    groups=st.frozensets(st.sampled_from(GROUPS), min_size=1),
    gpus=st.frozensets(SLUGS, min_size=1),
    max_gpus=st.integers(0, 8),
)
TWO_POOLS = st.tuples(POOLS, POOLS).map(
    lambda found: {name: replace(each, slug=name) for name, each in zip("pq", found, strict=True)}
)
# Rules about images, CPU and memory may leave nothing and so block everything, which is another matter.
PLAIN_RULES, PLAIN_DENIALS = (
    rules(deny=deny).map(lambda rule: replace(rule, images=None, cpu=None, memory=None)) for deny in (False, True)
)
PLAIN = st.builds(
    Policy,
    default=PLAIN_RULES,
    groups=st.fixed_dictionaries({"ml": PLAIN_RULES, "art": PLAIN_RULES, "probation": PLAIN_DENIALS}),
)
RESTRICTED: list[AccessKey] = [
    *(("image", slug) for slug in CATALOG.images),
    *(("gpu", slug) for slug in CATALOG.gpus),
    *(("preset", slug) for slug in CATALOG.presets),
]
ACCESS = st.builds(
    Access, groups=st.frozensets(st.sampled_from(GROUPS)), users=st.frozensets(st.sampled_from(["ada", "bob"]))
)
POLICIES = st.builds(
    Policy,
    access=st.just({}) | st.dictionaries(st.sampled_from(RESTRICTED), ACCESS, max_size=3),
    default=rules(),
    groups=st.fixed_dictionaries({}, optional={"ml": rules(), "art": rules(), "probation": rules(deny=True)}),
    users=st.fixed_dictionaries({}, optional={"ada": rules() | rules(deny=True)}),
    pools=TWO_POOLS | st.just({}),
)
SERVERS = st.lists(
    st.builds(
        ServerUsage,
        owner=st.sampled_from(["ada", "bob"]),
        name=st.sampled_from(["", "second", "third"]),
        gpu=st.sampled_from(["t4", "a100", "either", "gone", ""]),
        count=st.integers(1, 3),
        pools=st.sampled_from([(), ("p",), ("p", "q")]),
    ),
    max_size=4,
    unique_by=lambda server: (server.owner, server.name),
)
QUOTAS = st.none() | st.builds(
    RemainingQuota,
    left=st.fixed_dictionaries(
        {},
        optional={
            "requests.nvidia.com/gpu": st.integers(0, 8),
            "limits.cpu": st.integers(0, 20_000),
            "requests.cpu": st.integers(0, 10_000),
            "limits.memory": st.integers(0, 80 * GIB),
            "requests.memory": st.integers(0, 80 * GIB),
            "pods": st.integers(0, 2),
        },
    ),
)
CATALOGS = st.builds(
    lambda policy, t4_longest, count, amounts: startable(
        catalog(
            policy,
            gpus={
                slug: replace(gpu, max_count=count, max_runtime_s=t4_longest if slug == "t4" else None)
                for slug, gpu in CATALOG.gpus.items()
            },
            **amounts,
        )
    ),
    POLICIES | st.none(),
    st.sampled_from([None, 60, 2 * HOUR_S]),
    st.integers(1, 8),
    # Without bounds in the settings, and no node to give any.
    st.sampled_from([{}, {}, {"cpu": None, "memory": None}]),
)
PERSONS = st.builds(Person, name=st.just("ada"), groups=st.none() | st.frozensets(st.sampled_from(GROUPS)))
ALLOWANCES = st.builds(
    lambda full, person, servers, quota, known: resolve_allowance(
        full, person, usage=sum_usage("ada", servers, excluding="", quota=quota, known=known)
    ),
    CATALOGS,
    PERSONS,
    SERVERS,
    QUOTAS,
    st.sampled_from([True, True, True, False]),
)
COUNTED = st.builds(
    lambda policy, pools, groups, servers: resolve_allowance(
        catalog(replace(policy, pools=pools)),
        Person(name="ada", groups=groups),
        usage=sum_usage("ada", servers, excluding=""),
    ),
    PLAIN,
    TWO_POOLS,
    st.frozensets(st.sampled_from(GROUPS)),
    SERVERS,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "image": st.sampled_from([*CATALOG.images]),
    "cpu": st.integers(1, 32).map(lambda halves: halves / 2),
    "memory": st.integers(1, 64).map(lambda size: f"{size}G"),
    "gpu": st.none() | st.sampled_from([*CATALOG.gpus]),
    "run_time": st.integers(1, 96).map(lambda quarters: f"{quarters * 15}m"),
}
COMPLETE = st.fixed_dictionaries(FIELDS).flatmap(
    lambda options: st.integers(1 if options["gpu"] else 0, 8 if options["gpu"] else 0).map(
        lambda count: {**options, "gpu_count": count}
    )
)
CUSTOM = st.builds(
    lambda options: {**{key: value for key, value in options.items() if key != "image"}, "custom_image": "a.io/b:1"},
    COMPLETE,
)
PARTIAL = st.fixed_dictionaries(
    {}, optional={**FIELDS, "gpu_count": st.integers(0, 8), "preset": st.sampled_from([*CATALOG.presets])}
)


def accepted(options: dict[str, Any], full: Catalog) -> Selection | None:
    try:
        return validate(options, full)
    except SelectionError:
        return None


def passed(options: dict[str, Any], limits: Allowance) -> Selection | None:
    try:
        return admit(options, limits).selection
    except SelectionError as error:
        if isinstance(error, PolicyError) and not {problem.code for problem in error.problems} <= CODES:
            raise
        return None


def adds_up(selection: Selection, limits: Allowance) -> bool:
    """Tell whether all counts are kept with one more server, by adding up what there would be."""
    full, rule = limits.full_catalog, limits.rule
    assert selection.gpu is not None
    new = ServerUsage(owner="ada", name="", gpu=selection.gpu, count=selection.gpu_count)
    every = [*limits.usage.own, new]

    def may_be(server: ServerUsage) -> set[str]:
        if server.gpu not in full.gpus:
            return set(full.gpus)  # its pod does not tell, or the type is gone
        return {server.gpu, *(each.slug for each in full.gpus[server.gpu].members)}

    kept = [
        rule.find_type_rule(selection.gpu) is not None,
        new.count <= (UNLIMITED if rule.max_gpus_per_server is None else rule.max_gpus_per_server),
        sum(each.count for each in every) <= (UNLIMITED if rule.max_gpus is None else rule.max_gpus),
        len(every) <= (UNLIMITED if rule.max_servers_with_gpu is None else rule.max_servers_with_gpu),
    ]
    for slug in may_be(new):
        said = (
            rule.find_type_rule(slug) if slug == selection.gpu else find_member_rule(rule, slug, combined=selection.gpu)
        )
        if said is not None:
            total = sum(each.count for each in every if slug in may_be(each))
            kept.append(total <= (UNLIMITED if said.max_gpus is None else said.max_gpus))
            kept.append(new.count <= (UNLIMITED if said.max_gpus_per_server is None else said.max_gpus_per_server))
    kept += [
        limits.usage.pools.get(slug, 0) + new.count <= full.policy.pools[slug].max_gpus
        for slug in find_gpu_pools(full.policy, limits.person, gpu=full.gpus[selection.gpu])
    ]
    return all(kept)


@given(ALLOWANCES, COMPLETE | CUSTOM)
def test_what_validates_in_reach_is_what_no_rule_refuses(limits: Allowance, options: dict[str, Any]):
    endless = {slug: replace(gpu, max_runtime_s=None) for slug, gpu in limits.full_catalog.gpus.items()}
    chosen = accepted(options, replace(limits.complete_catalog, gpus=endless))
    may = chosen is not None and limits.check_selection(chosen) == ()
    assert (passed(options, limits) is not None) is may
    if limits.blocked is None:
        assert (accepted(options, limits.catalog) is not None) is may


# Only a quarter of these options are admitted: several for each allowance leave few allowances without any.
@given(ALLOWANCES, st.lists(PARTIAL, min_size=4, max_size=8))
def test_omitted_options_get_allowed_values(limits: Allowance, options: list[dict[str, Any]]):
    selections = [selection for each in options if (selection := passed(each, limits))]
    assume(selections)
    for selection in selections:
        assert limits.check_selection(selection) == ()
        assert admit(build_options(selection, limits.catalog), limits).selection == selection
        longest = limits.find_max_run_time_s(selection.gpu)
        assert (place(selection, limits.catalog).run_time_s or UNLIMITED) <= (longest or UNLIMITED)


@given(ALLOWANCES)
def test_the_most_is_the_largest_number_that_is_let_through(limits: Allowance):
    for slug in limits.full_catalog.gpus:
        counts = [count for count in range(1, 10) if passed({"gpu": slug, "gpu_count": count}, limits)]
        assert counts == list(range(1, limits.find_max_count(slug) + 1))
        assert (limits.check_gpu(slug) is None) is bool(counts)


@given(COUNTED)
def test_a_number_is_let_through_exactly_when_all_adds_up(limits: Allowance):
    for slug, gpu in limits.full_catalog.gpus.items():
        for count in range(1, gpu.max_count + 1):
            asked = Selection(image="r", cpu_millis=None, memory_bytes=None, gpu=slug, gpu_count=count)
            assert (count <= limits.find_max_count(slug)) is adds_up(asked, limits)
            assert (limits.check_selection(asked) == ()) is adds_up(asked, limits)


@given(ALLOWANCES)
def test_each_thing_in_reach_has_no_denial(limits: Allowance):
    if limits.blocked is not None:
        return
    full = limits.full_catalog
    assert [slug for slug in full.images if limits.check_image(slug) is None] == list(limits.catalog.images)
    assert [slug for slug in full.gpus if limits.check_gpu(slug) is None] == list(limits.catalog.gpus)
    assert [slug for slug in full.presets if passed({"preset": slug}, limits)] == list(limits.catalog.presets)


@given(PLAIN, SERVERS, st.frozensets(st.sampled_from(["ml", "art"]), min_size=1))
def test_another_group_never_takes_and_a_denying_one_never_gives(
    policy: Policy, servers: list[ServerUsage], groups: Any
):
    def most(*more: str) -> list[int]:
        usage: Usage = sum_usage("ada", servers, excluding="")
        found = resolve_allowance(catalog(policy), Person(name="ada", groups=groups.union(more)), usage=usage)
        return [found.find_max_count(slug) for slug in CATALOG.gpus]

    assert all(before <= after for before, after in zip(most(), most("ml", "art"), strict=True))
    assert all(before >= after for before, after in zip(most(), most("probation"), strict=True))
