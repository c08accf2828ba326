"""A finished pod and its user's limits: its amounts, its image and its GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.catalog.policy_model import (
    ANY,
    UNLIMITED,
    Access,
    AmountRange,
    GPUTypeRule,
    NamedRule,
    Policy,
    Rule,
)
from gpuspawner.core.errors import PolicyError
from gpuspawner.core.policy.admission import admit_pod
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.candidate import Candidate
from tests.unit.core.policies import A100, CATALOG, EITHER, GIB, HOUR_S, T4, allowed, gpu, pool, server

OWN_IMAGE = "quay.io/a/b:1"


def gpus(*types: str, count: int = 1, named: str = "") -> PodGPUs:
    """Return the GPUs of a pod that may get some types, and names the only one or ``named``."""
    return PodGPUs(counts={T4.resource: count}, gpu=types[0] if len(types) == 1 else named, types=types)


def denials(allowance: Allowance, **candidate: Any) -> dict[str, str]:
    return {denial.field: denial.code for denial in allowance.check_candidate(Candidate(**candidate))}


def sentence(allowance: Allowance, **candidate: Any) -> str | None:
    found = [denial.message for denial in allowance.check_candidate(Candidate(**candidate))]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("limit", "rule", "expected"),
    [
        (99_000, Rule(), None),
        (99_000, Rule(cpu=AmountRange(max=UNLIMITED)), None),
        (4000, Rule(cpu=AmountRange(max=4000)), None),
        (4001, Rule(cpu=AmountRange(max=4000)), "You may not have more than 4 CPUs."),
        (0, Rule(), None),
        (0, Rule(cpu=AmountRange(min=1000)), None),
        (0, Rule(cpu=AmountRange(max=4000)), "You may not have more than 4 CPUs."),
        (0, Rule(cpu=AmountRange(max=UNLIMITED)), None),
        (500, Rule(cpu=AmountRange(min=1000)), "You may not have less than 1 CPU."),
    ],
)
def test_cpus_are_bound_by_rules_and_no_limit_is_more_than_any(limit: int, rule: Rule, expected: str | None):
    # The bounds of the form, of which the largest here is 16 CPUs, are not the policy's.
    assert sentence(allowed(rule), cpu=(limit, limit)) == expected


def test_memory_is_bound_by_rules():
    allowance = allowed(Rule(memory=AmountRange(min=GIB, max=2 * GIB)))
    found = [sentence(allowance, memory=(limit, limit)) for limit in (GIB - 1, GIB, 600 * GIB)]
    assert found == [
        "You may not have less than 1 GiB of memory.",
        None,
        "You may not have more than 2 GiB of memory.",
    ]


@pytest.mark.parametrize(
    ("cpu", "memory", "left", "denied"),
    [
        ((4000, 2000), (0, 0), {"limits.cpu": 4000, "requests.cpu": 2000}, ""),
        ((4000, 2000), (0, 0), {"limits.cpu": 3999}, "cpu"),
        ((4000, 2000), (0, 0), {"requests.cpu": 1999}, "cpu"),
        ((0, 100), (0, 0), {"limits.cpu": 99_000}, "cpu"),
        ((0, 0), (0, 0), {"requests.cpu": 99_000}, "cpu"),
        ((0, 100), (0, 0), {"requests.cpu": 100}, ""),
        ((0, 0), (GIB, GIB), {"limits.memory": GIB, "requests.memory": GIB}, ""),
        ((0, 0), (GIB, GIB), {"limits.memory": GIB - 1}, "memory"),
    ],
)
def test_amounts_are_bound_by_quotas_which_refuse_pods_that_say_nothing(
    cpu: tuple[int, int], memory: tuple[int, int], left: dict[str, int], denied: str
):
    allowance = allowed(left=left)
    assert denials(allowance, cpu=cpu, memory=memory) == ({denied: "namespace_quota"} if denied else {})
    expected = "The cluster's quota leaves no room for this server." if denied else None
    assert sentence(allowance, cpu=cpu, memory=memory) == expected


def test_all_fields_that_are_denied_are_said():
    rule = Rule(cpu=AmountRange(max=1000), memory=AmountRange(max=GIB), custom_images=False, gpus={})
    assert denials(allowed(rule), gpus=gpus("t4"), custom_image=OWN_IMAGE) == {
        "custom_image": "custom_image_not_allowed",
        "cpu": "cpu_not_allowed",
        "memory": "memory_not_allowed",
        "gpu": "gpu_not_allowed",
    }


@pytest.mark.parametrize("candidate", [{}, {"gpus": gpus("t4"), "custom_image": OWN_IMAGE}], ids=["nothing", "all"])
def test_who_may_start_nothing_may_start_no_pod(candidate: dict[str, Any]):
    unknown = allowed(Policy(groups={"ml": Rule()}), groups=None)
    assert denials(unknown, **candidate) == {"": "policy_unreadable"}
    assert denials(allowed(left={"pods": 0}), **candidate) == {"": "namespace_quota"}


def test_a_form_of_which_nothing_is_left_does_not_block_profiles():
    allowance = allowed(Rule(images=("gone",), cpu=AmountRange(min=32_000)))
    assert (allowance.blocked is None, allowance.refusal) == (False, None)
    assert denials(allowance, cpu=(64_000, 64_000)) == {}


def test_a_listed_image_that_is_for_others_cannot_be_named():
    images = {"torch": replace(CATALOG.images["torch"], image=OWN_IMAGE)}
    policy = Policy(access={("image", "torch"): Access(users=frozenset({"bob"}))})
    assert denials(allowed(policy, images=images), custom_image=OWN_IMAGE) == {
        "custom_image": "custom_image_not_allowed"
    }
    assert denials(allowed(policy, images=images), custom_image="quay.io/a/b:2") == {}


@pytest.mark.parametrize(
    ("asked", "is_denied"),
    [
        pytest.param(gpus("t4"), False, id="the allowed type"),
        pytest.param(gpus("t4", "a100"), True, id="or another"),
        pytest.param(gpus("a100", "t4"), True, id="another, or the allowed type"),
        pytest.param(gpus("t4", "a100", named="t4"), False, id="the allowed type, which the pod names"),
        pytest.param(gpus("t4", "a100", named="either"), True, id="a combined type"),
        pytest.param(gpus(), True, id="an unknown type"),
    ],
)
def test_a_user_must_be_allowed_each_type_that_the_pod_may_get(asked: PodGPUs, is_denied: bool):
    allowance = allowed(Rule(gpus={"t4": GPUTypeRule()}))
    assert denials(allowance, gpus=asked) == ({"gpu": "gpu_not_allowed"} if is_denied else {})


HIDDEN = gpu("h100", max_runtime_s=HOUR_S)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(gpus("t4"), (T4,), id="one"),
        pytest.param(gpus("t4", "a100"), (T4, A100), id="several"),
        pytest.param(gpus("t4", "a100", named="a100"), (A100,), id="one that the pod names"),
        pytest.param(gpus("t4", "a100", named="either"), (EITHER,), id="a combined type"),
        pytest.param(gpus("h100"), (HIDDEN,), id="a type that is taken out"),
        pytest.param(gpus("gone", "t4"), (T4,), id="a type that is gone"),
    ],
)
def test_the_types_that_a_pod_may_get_are_those_of_the_catalog(asked: PodGPUs, expected: tuple[Any, ...]):
    assert allowed(hidden=(HIDDEN,)).list_possible_types(asked) == expected


@pytest.mark.parametrize(
    ("types", "is_denied"),
    [
        pytest.param(["t4", "a100"], False, id="each member"),
        pytest.param(["either"], False, id="the combined type"),
        pytest.param(["t4"], True, id="one member"),
    ],
)
def test_a_pod_that_may_get_each_member_of_a_combined_type_needs_this_type_or_each_member(
    types: list[str], is_denied: bool
):
    allowance = allowed(Rule(gpus={slug: GPUTypeRule() for slug in types}))
    found = denials(allowance, gpus=gpus("t4", "a100", named="either"))
    assert found == ({"gpu": "gpu_not_allowed"} if is_denied else {})


NEW = replace(gpus("t4", "a100", count=2), may_be_new=True)
UNKNOWN = PodGPUs(counts={T4.resource: 2}, gpu="", may_be_new=True)


@pytest.mark.parametrize("asked", [NEW, UNKNOWN], ids=["or a known type", "only a new type"])
@pytest.mark.parametrize(
    ("rule", "code"),
    [
        pytest.param({ANY: GPUTypeRule()}, None, id="no limit"),
        pytest.param({ANY: GPUTypeRule(), "h100": GPUTypeRule(max_gpus_per_server=2)}, None, id="below the limit"),
        pytest.param({ANY: GPUTypeRule(), "h100": GPUTypeRule(max_gpus_per_server=1)}, "gpu_quota", id="above it"),
        pytest.param({ANY: GPUTypeRule(), "h100": GPUTypeRule(max_gpus=1)}, "gpu_quota", id="above a total"),
        pytest.param({ANY: GPUTypeRule(), "h100": GPUTypeRule(max_gpus=0)}, "gpu_not_allowed", id="none of it"),
    ],
)
def test_a_limit_of_a_type_without_nodes_holds_for_each_pod_that_may_get_it(
    rule: dict[str, GPUTypeRule], code: str | None, asked: PodGPUs
):
    allowance = allowed(Policy(default=Rule(gpus=rule), gpu_names=frozenset({"h100"})))
    assert denials(allowance, gpus=asked) == ({} if code is None else {"gpu": code})
    assert denials(allowance, gpus=replace(asked, gpu="t4", types=("t4",), may_be_new=False)) == {}


def test_a_pod_that_names_a_model_that_no_node_has_needs_a_rule_for_all_types():
    asked = replace(gpus("t4", count=2), may_be_new=True, names_new=True)
    assert sentence(allowed(Rule(gpus={"t4": GPUTypeRule()})), gpus=asked) == "You don't have access to nvidia.com/gpu."
    assert denials(allowed(Rule(gpus={ANY: GPUTypeRule()})), gpus=asked) == {}


def test_a_type_without_nodes_is_denied_like_one_with_nodes():
    others = Policy(
        default=Rule(gpus={"t4": GPUTypeRule(), "a100": GPUTypeRule()}),
        users={"bob": NamedRule(gpus={"h100": GPUTypeRule()})},
        gpu_names=frozenset({"t4", "a100", "h100"}),
    )
    assert sentence(allowed(others), gpus=NEW) == "You don't have access to h100."
    assert denials(allowed(others), gpus=replace(NEW, may_be_new=False)) == {}


@pytest.mark.parametrize("asked", [NEW, UNKNOWN], ids=["or a known type", "only a new type"])
def test_a_pool_of_a_type_without_nodes_limits_each_pod_that_may_get_it(asked: PodGPUs):
    policy = Policy(pools={"p": pool("p", gpus=frozenset({"h100"}), most=1)}, gpu_names=frozenset({"h100"}))
    assert denials(allowed(policy, groups=["physics"]), gpus=asked) == {"gpu": "pool_quota"}


def test_the_pod_of_an_unknown_type_does_not_say_its_pools_which_its_node_tells_later():
    pools = {name: pool(name, gpus=frozenset({slug})) for name, slug in {"p": "h100", "q": "a100", "r": ANY}.items()}
    policy = Policy(pools=pools, gpu_names=frozenset({"h100", "a100"}))
    admission = admit_pod(Candidate(gpus=UNKNOWN), allowed(policy, groups=["physics"]))
    assert (set(admission.pools), admission.notes_pools) == ({"p", "r"}, False)


def test_gpus_whose_number_cannot_be_read_are_refused_where_anything_is_limited():
    unread = {"is_gpu_count_known": False}
    assert sentence(allowed(Rule(max_gpus=0)), **unread) == "The number of GPUs must be a whole number."
    assert sentence(allowed(), **unread) is None


@pytest.mark.parametrize(("resource", "vendor"), [("amd.com/gpu", "amd"), ("x.io/tpu", "other")])
def test_gpus_of_no_type_stand_for_a_type_without_a_name(resource: str, vendor: str):
    (found,) = allowed().list_possible_types(PodGPUs(counts={resource: 2}, gpu="", may_be_new=True))
    assert (found.slug, found.display_name, found.resource, found.vendor) == ("", resource, resource, vendor)


def test_a_second_resource_may_be_of_any_type_and_so_may_the_first():
    asked = PodGPUs(counts={T4.resource: 1, "x.io/tpu": 1}, gpu="", may_be_new=True)
    found = allowed(hidden=(HIDDEN,)).list_possible_types(asked)
    assert [gpu.slug or gpu.resource for gpu in found] == ["h100", "t4", "a100", T4.resource, "x.io/tpu"]


def test_who_may_have_no_type_of_that_resource_reads_its_name():
    allowance = allowed(Rule(gpus={"t4": GPUTypeRule()}))
    assert sentence(allowance, gpus=PodGPUs(counts={"x.io/tpu": 1}, gpu="")) == "You don't have access to x.io/tpu."


@pytest.mark.parametrize(
    ("rule", "asked", "longest_s"),
    [
        pytest.param(Rule(), gpus("h100"), HOUR_S, id="a type that is taken out"),
        pytest.param(Rule(gpus={ANY: GPUTypeRule(max_runtime_s=90)}), gpus("h100"), 90, id="and its rule"),
        pytest.param(Rule(gpus={ANY: GPUTypeRule(max_runtime_s=90)}), gpus(), 90, id="an unknown type"),
        pytest.param(Rule(gpus={ANY: GPUTypeRule(max_runtime_s=UNLIMITED)}), gpus(), None, id="unlimited"),
    ],
)
def test_a_pod_has_the_run_time_of_a_type_that_is_taken_out_or_unknown(
    rule: Rule, asked: PodGPUs, longest_s: int | None
):
    assert allowed(rule, hidden=(HIDDEN,)).find_pod_run_time_s(asked) == longest_s


def test_a_pod_that_is_not_is_refused_with_all_reasons():
    allowance = allowed(Rule(max_gpus=2, cpu=AmountRange(max=1000)), servers=[server(count=2)])
    with pytest.raises(PolicyError) as caught:
        admit_pod(Candidate(gpus=gpus("t4")), allowance)
    assert {problem.field: problem.code for problem in caught.value.problems} == {
        "cpu": "cpu_not_allowed",
        "gpu": "gpu_quota",
    }
