"""A profile's pod is held to the limits that a choice of the form's fields is held to, whatever types it may get."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import GPUType, find_lowest_limit
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.catalog.policy_model import ANY, UNLIMITED, AmountRange, Rule
from gpuspawner.core.errors import Problem
from gpuspawner.core.policy.admission import admit_pod
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.rules import find_gpu_pools
from gpuspawner.core.policy.usage import RemainingQuota, Usage
from gpuspawner.core.request.candidate import Candidate
from gpuspawner.core.request.pod_requirements import calculate_resources
from gpuspawner.core.request.selection import Selection
from tests.unit.core.policies import CATALOG, GIB, T4
from tests.unit.core.policy.test_allowance_law import ALLOWANCES, COMPLETE, COUNTED, CUSTOM, accepted

GPU = T4.resource


def pods(*choices: tuple[str, ...]) -> st.SearchStrategy[PodGPUs]:
    """Return the GPUs of pods, each of which may get the types of one of the choices."""
    return st.builds(
        lambda types, count: PodGPUs(
            counts={GPU: count}, gpu=types[0] if len(types) == 1 else "", types=types, may_be_new=not types
        ),
        st.sampled_from(choices),
        st.integers(1, 9),
    )


ONE, SEVERAL, UNKNOWN = pods(("t4",), ("a100",)), pods(("t4", "a100"), ("a100", "t4")), pods(())
PODS = st.one_of(st.just(PodGPUs()), ONE, SEVERAL, UNKNOWN)
AMOUNTS = st.none() | st.builds(AmountRange, min=st.sampled_from([None, 1]), max=st.integers(1, 16))


def scale(amounts: AmountRange | None, unit: int) -> AmountRange | None:
    return amounts and AmountRange(min=amounts.min and amounts.min * unit, max=amounts.max and amounts.max * unit)


ROOMS = st.builds(
    RemainingQuota,
    left=st.fixed_dictionaries(
        {},
        optional={
            f"requests.{GPU}": st.integers(0, 8),
            "limits.cpu": st.integers(1, 16).map(lambda cpus: cpus * 1000),
            "requests.cpu": st.integers(1, 16).map(lambda cpus: cpus * 500),
            "limits.memory": st.integers(1, 64).map(lambda size: size * GIB),
            "requests.memory": st.integers(1, 64).map(lambda size: size * GIB),
        },
    ),
)
# Most random policies block the whole form; these do not.
LIMITED = st.builds(
    lambda limits, quota, known, cpu, memory, custom_images: replace(
        limits,
        usage=replace(limits.usage, quota=quota, known=known),
        rule=replace(limits.rule, cpu=scale(cpu, 1000), memory=scale(memory, 4 * GIB), custom_images=custom_images),
    ),
    COUNTED,
    ROOMS,
    st.sampled_from([True, True, True, False]),
    AMOUNTS,
    AMOUNTS,
    st.sampled_from([None, True, False]),
)
EVERY = st.one_of(ALLOWANCES, LIMITED, LIMITED)
POOLED = COUNTED.map(lambda limits: replace(limits, rule=Rule(), usage=Usage()))


def codes(found: Iterable[Problem]) -> set[tuple[str, str]]:
    """Return field and code of each denial that a pod may have, too: no pod picks an image of the list or a time."""
    return {
        ("gpu" if denial.field == "gpu_count" else denial.field, denial.code)
        for denial in found
        if denial.field not in {"image", "run_time"}
    }


def make_pod(selection: Selection, limits: Allowance) -> Candidate:
    """Return what the pod of a choice asks for."""
    amounts, gpu = calculate_resources(selection, limits.complete_catalog), CATALOG.gpus.get(selection.gpu or "")
    gpus = PodGPUs()
    if gpu is not None:
        types = tuple(member.slug for member in gpu.members) or (gpu.slug,)
        gpus = PodGPUs(counts={gpu.resource: selection.gpu_count}, gpu=gpu.slug, types=types)
    return Candidate(
        gpus=gpus,
        cpu=(amounts.cpu_limit_millis or 0, amounts.cpu_request_millis or amounts.cpu_limit_millis or 0),
        memory=(amounts.memory_limit_bytes or 0, amounts.memory_request_bytes or amounts.memory_limit_bytes or 0),
        custom_image=selection.custom_image or "",
    )


@given(EVERY, COMPLETE | CUSTOM)
def test_a_pod_is_refused_exactly_if_the_choice_of_the_same_fields_is(limits: Allowance, options: dict[str, Any]):
    # A form of which no image or no amount is left is blocked, and a profile is not.
    assume(limits.blocked is limits.refusal)
    endless = {slug: replace(gpu, max_runtime_s=None) for slug, gpu in limits.full_catalog.gpus.items()}
    selection = accepted(options, replace(limits.complete_catalog, gpus=endless))
    assume(selection is not None)
    assert selection is not None
    assert codes(limits.check_candidate(make_pod(selection, limits))) == codes(limits.check_selection(selection))


@given(EVERY, SEVERAL)
def test_a_pod_that_may_get_several_types_is_refused_if_one_of_them_is(limits: Allowance, gpus: PodGPUs):
    single = [
        codes(limits.check_candidate(Candidate(gpus=replace(gpus, gpu=slug, types=(slug,))))) for slug in gpus.types
    ]
    found = codes(limits.check_candidate(Candidate(gpus=gpus)))
    assert bool(found) is any(single)
    assert found <= set().union(*single)


@given(COUNTED, st.integers(1, 9))
def test_gpus_of_an_unknown_type_are_for_those_who_may_have_any_type(limits: Allowance, count: int):
    policy, rule, own = limits.full_catalog.policy, limits.rule, limits.usage.own
    every = None if rule.gpus is None else rule.gpus.get(ANY)
    may_be_unknown = [server for server in own if server.gpu not in CATALOG.gpus]
    maxima = [
        (count, rule.max_gpus_per_server),
        (count + sum(server.count for server in own), rule.max_gpus),
        (1 + len(own), rule.max_servers_with_gpu),
        *(
            (count + limits.usage.pools.get(pool.slug, 0), pool.max_gpus)
            for pool in policy.pools.values()
            if ANY in pool.gpus and pool.groups & limits.person.normalized_groups
        ),
    ]
    if every is not None:
        maxima.append((count, every.max_gpus_per_server))
        maxima.append((count + sum(server.count for server in may_be_unknown), every.max_gpus))
    is_inside = all(asked <= (UNLIMITED if most is None else most) for asked, most in maxima)
    found = limits.check_candidate(Candidate(gpus=PodGPUs(counts={"x/tpu": count}, gpu="", may_be_new=True)))
    assert (found == ()) is (is_inside and (rule.gpus is None or every is not None))


@given(EVERY, UNKNOWN)
def test_gpus_of_an_unknown_type_are_held_to_what_a_type_that_no_rule_names_is(limits: Allowance, gpus: PodGPUs):
    (resource,) = gpus.counts
    new = GPUType(slug="new", display_name="New", resource=resource, vendor="other")
    catalog = replace(limits.full_catalog, gpus={**limits.full_catalog.gpus, "new": new})
    known, named = replace(limits, full_catalog=catalog), replace(gpus, gpu="new", types=("new",))
    pods = ((limits, gpus), (known, named))
    found = [codes(allowance.check_candidate(Candidate(gpus=asked))) for allowance, asked in pods]
    times = [allowance.find_pod_run_time_s(asked) for allowance, asked in pods]
    assert (found[0], times[0]) == (found[1], times[1])


@given(EVERY, ONE)
def test_gpus_of_an_unknown_type_beside_others_never_lift_a_limit(limits: Allowance, gpus: PodGPUs):
    both = PodGPUs(counts={"x/tpu": 1, **gpus.counts}, gpu="", may_be_new=True)
    found = [limits.check_candidate(Candidate(gpus=asked)) for asked in (gpus, both)]
    assert found[1] or not found[0]
    times = [limits.find_pod_run_time_s(asked) or UNLIMITED for asked in (gpus, both)]
    assert times[1] <= times[0]


@given(EVERY, PODS)
def test_a_pod_runs_for_as_long_as_each_type_that_it_may_get(limits: Allowance, gpus: PodGPUs):
    if gpus.count and not gpus.types:
        every = None if limits.rule.gpus is None else limits.rule.gpus.get(ANY)
        times = [limits.find_max_run_time_s(None), every.max_runtime_s if every else None]
    else:
        times = [limits.find_max_run_time_s(slug) for slug in gpus.types or (None,)]
    assert limits.find_pod_run_time_s(gpus) == find_lowest_limit(*(time for time in times if time != UNLIMITED))


@given(st.one_of(POOLED, POOLED, ALLOWANCES), SEVERAL | PODS)
def test_a_pod_that_is_let_through_counts_towards_the_pools_of_all_its_types(limits: Allowance, gpus: PodGPUs):
    candidate = Candidate(gpus=gpus)
    assume(limits.check_candidate(candidate) == ())
    admission, policy = admit_pod(candidate, limits), limits.full_catalog.policy
    types = [limits.full_catalog.gpus[slug] for slug in gpus.types]
    expected = {pool for gpu in types for pool in find_gpu_pools(policy, limits.person, gpu=gpu)}
    if policy is not None and gpus.count and not gpus.types:
        mine = limits.person.normalized_groups
        expected = {pool.slug for pool in policy.pools.values() if ANY in pool.gpus and pool.groups & mine}
    has_pools = policy is not None and bool(policy.pools)
    assert (set(admission.pools), admission.notes_pools) == (expected, has_pools and bool(gpus.types or not gpus.count))
    assert len(admission.pools) == len(set(admission.pools))
    assert (admission.gpus, admission.run_time_s) == (gpus, limits.find_pod_run_time_s(gpus))
