"""Whatever the hub knows of the cluster, a start that the gate admits is inside all of its user's limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.model import NO_AMOUNT, GPUType, OwnAmount, OwnResources
from gpuspawner.core.catalog.policy_model import UNLIMITED, AccessKey, AmountRange, Policy
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.errors import PolicyError, Problem, SelectionError
from gpuspawner.core.policy.admission import Admission, admit
from gpuspawner.core.policy.allowance import Allowance, resolve_allowance
from gpuspawner.core.policy.rules import find_gpu_pools, find_member_rule
from gpuspawner.core.policy.usage import ServerUsage, Usage, sum_usage
from gpuspawner.core.request.selection import build_options
from tests.unit.core.policies import CATALOG, EITHER, GIB, T4
from tests.unit.core.policy.test_allowance_law import COMPLETE, CUSTOM, PARTIAL, PERSONS, POLICIES, QUOTAS, SERVERS


def node(product: str = "", *, cpus: int = 16, gpus: int = 0) -> Node:
    amounts = {"cpu": cpus * 1000, "memory": 4 * cpus * GIB, "pods": 110, "nvidia.com/gpu": gpus}
    labels = {"nvidia.com/gpu.product": product} if product else {}
    return Node(name=product or "plain", labels=labels, allocatable=amounts, capacity=amounts)


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """The hub's knowledge of the cluster.

    :param nodes: None if it cannot read them.
    :param counts_servers: whether it can read the pods of its servers.
    """

    nodes: tuple[Node, ...] | None
    counts_servers: bool = True


T4_NODE, A100_NODE, PLAIN_NODE = node("t4", cpus=4, gpus=4), node("a100", gpus=8), node()
KNOWN = Knowledge(nodes=(T4_NODE, A100_NODE, PLAIN_NODE))
KNOWLEDGE = {
    "known": KNOWN,
    "no node yet": Knowledge(nodes=()),
    "some nodes": Knowledge(nodes=(T4_NODE,)),
    "no pods": replace(KNOWN, counts_servers=False),
    "no nodes": Knowledge(nodes=None),
    "nothing": Knowledge(nodes=None, counts_servers=False),
}
# The settings describe the T4, nodes tell of the A100; the bounds of CPU and memory are the settings' or the nodes'.
CONFIGURED = st.builds(
    lambda policy, bounds, most: ConfiguredCatalog(
        images=CATALOG.images,
        custom_images=CATALOG.custom_images,
        run_time=CATALOG.run_time,
        gpus={"t4": replace(T4, max_count=most or 1)},
        uncounted=frozenset() if most else frozenset({"t4"}),
        unions={"either": replace(EITHER, members=(), max_count=0, any_of=("t4", "a100"))},
        presets=CATALOG.presets,
        policy=policy,
        **bounds,
    ),
    POLICIES | st.none(),
    st.sampled_from([{}, {"cpu": CATALOG.cpu}, {"cpu": CATALOG.cpu, "memory": CATALOG.memory}]),
    st.sampled_from([None, 2, 6]),
)

# Each law tries many policies, which takes long beside other tests.
pytestmark = pytest.mark.timeout(120)


def own_amounts(*amounts: int) -> st.SearchStrategy[OwnAmount]:
    """Return KubeSpawner's limits and guarantees, each none or one of the amounts, that Kubernetes accepts."""
    some = st.sampled_from([None, *amounts])
    found = st.builds(OwnAmount, limit=some, guarantee=some)
    return found.filter(lambda own: None in {own.limit, own.guarantee} or own.guarantee <= own.limit)


OWN = st.builds(
    OwnResources,
    cpu=st.just(NO_AMOUNT) | own_amounts(100, 1000, 1300, 6000),
    memory=st.just(NO_AMOUNT) | own_amounts(GIB // 3, GIB, 3 * GIB, 12 * GIB),
    gpus=st.sampled_from([(), (("nvidia.com/gpu", 1),), (("nvidia.com/gpu", 3),)]),
)


@dataclass(frozen=True, kw_only=True)
class Site:
    """A hub with its settings, one of its users, and what their servers and the namespace's quota say."""

    configured: ConfiguredCatalog
    own: OwnResources
    person: Any
    servers: list[ServerUsage]
    quota: Any

    def allow(self, knowledge: Knowledge) -> Allowance:
        full = assemble_catalog(
            self.configured,
            Inventory(nodes=knowledge.nodes),
            table=AcceleratorTable(),
            fallback_image="base",
            own=self.own,
        )
        known = knowledge.counts_servers
        servers = self.servers if known else ()
        return resolve_allowance(
            full, self.person, usage=sum_usage("ada", servers, excluding="", quota=self.quota, known=known)
        )

    def admit(self, options: Any, knowledge: Knowledge) -> Admission | None:
        unread = self.configured.uncounted if knowledge.nodes is None else None
        try:
            return admit(options, self.allow(knowledge), unread_types=unread)
        except SelectionError:
            return None


CHOICES = st.one_of(PARTIAL, PARTIAL, COMPLETE, CUSTOM)
MANY_ARE_REFUSED = settings(suppress_health_check=[HealthCheck.filter_too_much])
"""Most random choices break a random rule; the examples that are left are enough."""
SITES = st.builds(Site, configured=CONFIGURED, own=OWN, person=PERSONS, servers=SERVERS, quota=QUOTAS)


def list_broken_limits(admission: Admission, limits: Allowance) -> list[str]:
    """Return the limits that a start does not keep, from the rule, the pools, the quota and all servers."""
    policy = limits.full_catalog.policy
    kept: dict[str, bool] = {"quota of pods": _get_quota(limits).get("pods", 1) > 0}
    if policy is not None:
        kept["groups"] = limits.person.groups is not None or not policy.depends_on_groups
        kept |= _check_images(admission, limits)
        kept |= {f"access to {key}": policy.admits(limits.person, *key) for key in _list_restricted(admission)}
    kept |= dict(_check_amounts(admission, limits))
    if admission.gpu is not None:
        kept |= dict(_check_gpus(admission.gpu, admission.selection.gpu_count, limits))
    lengths = [limits.rule.max_runtime_s]
    if admission.gpu is not None:
        found = limits.rule.find_type_rule(admission.gpu.slug)
        lengths += [admission.gpu.max_runtime_s, None if found is None else found.max_runtime_s]
    ends_after_s = admission.placement.run_time_s or UNLIMITED
    kept["run time"] = all(ends_after_s <= each for each in lengths if each is not None)
    return [name for name, is_kept in kept.items() if not is_kept]


def _list_restricted(admission: Admission) -> Iterator[AccessKey]:
    if admission.selection.custom_image is None:
        yield "image", admission.selection.image
    if admission.gpu is not None:
        yield from (("gpu", gpu.slug) for gpu in (admission.gpu, *admission.gpu.members))


def _check_images(admission: Admission, limits: Allowance) -> dict[str, bool]:
    if admission.selection.custom_image is not None:
        return {"custom images": limits.rule.custom_images is not False}
    return {"images": limits.rule.allows_image(admission.selection.image)}


def _check_amounts(admission: Admission, limits: Allowance) -> Iterator[tuple[str, bool]]:
    placement, quota = admission.placement, _get_quota(limits)
    for name, chosen, requested in (
        ("cpu", placement.cpu_limit_millis, placement.cpu_request_millis),
        ("memory", placement.memory_limit_bytes, placement.memory_request_bytes),
    ):
        rule = getattr(limits.rule, name) or AmountRange()
        own: OwnAmount = getattr(limits.full_catalog.own, name)
        limit = own.limit if chosen is None else chosen
        request = next((each for each in (requested, own.guarantee, limit) if each is not None), None)
        yield f"{name}.max", rule.max is None or (limit is not None and limit <= rule.max)
        yield f"{name}.min", rule.min is None or chosen is None or chosen >= rule.min
        for resource, amount in ((f"limits.{name}", limit), (f"requests.{name}", request)):
            yield resource, resource not in quota or (amount is not None and amount <= quota[resource])


def _check_gpus(gpu: GPUType, count: int, limits: Allowance) -> Iterator[tuple[str, bool]]:
    rule, usage, full = limits.rule, limits.usage, limits.full_catalog
    yield "quota of GPUs", count <= _get_quota(limits).get(f"requests.{gpu.resource}", UNLIMITED)
    yield "GPUs of the type", count <= gpu.max_count
    yield "GPU type", rule.find_type_rule(gpu.slug) is not None
    yield "GPUs per server", count <= _or_unlimited(rule.max_gpus_per_server)
    yield "GPUs", _count(usage, usage.own) + count <= _or_unlimited(rule.max_gpus)
    servers = len({each.name for each in usage.own if each.count}) if usage.known else UNLIMITED
    yield "servers with a GPU", servers + 1 <= _or_unlimited(rule.max_servers_with_gpu)
    for each in (gpu, *gpu.members):
        found = rule.find_type_rule(each.slug) if each is gpu else find_member_rule(rule, each.slug, combined=gpu.slug)
        if found is not None:
            held = [server for server in usage.own if _may_be(server, each.slug, limits)]
            yield f"GPUs of {each.slug} per server", count <= _or_unlimited(found.max_gpus_per_server)
            yield f"GPUs of {each.slug}", _count(usage, held) + count <= _or_unlimited(found.max_gpus)
    for slug in find_gpu_pools(full.policy, limits.person, gpu=gpu):
        policy: Policy | None = full.policy
        used = usage.pools.get(slug, 0) if usage.known else UNLIMITED
        yield f"pool {slug}", policy is not None and used + count <= _or_unlimited(policy.pools[slug].max_gpus)


def _may_be(server: ServerUsage, slug: str, limits: Allowance) -> bool:
    found = limits.full_catalog.gpus.get(server.gpu or "")
    return found is None or slug in {found.slug, *(each.slug for each in found.members)}


def _count(usage: Usage, servers: list[ServerUsage] | tuple[ServerUsage, ...]) -> int:
    return sum(each.count for each in servers) if usage.known else UNLIMITED


def _or_unlimited(limit: int | None) -> float:
    """Return a limit that nothing exceeds for one that is not given, or lifted."""
    return float("inf") if limit is None or limit >= UNLIMITED else limit


def _get_quota(limits: Allowance) -> Any:
    return {} if limits.usage.quota is None else limits.usage.quota.left


@MANY_ARE_REFUSED
@given(SITES, st.sampled_from(sorted(KNOWLEDGE)), CHOICES)
def test_admitted_choices_are_inside_all_limits_whatever_is_known(site: Site, known: str, options: dict[str, Any]):
    admission = site.admit(options, KNOWLEDGE[known])
    assume(admission is not None)
    assert admission is not None
    assert list_broken_limits(admission, site.allow(KNOWLEDGE[known])) == []


@given(SITES, st.sampled_from(sorted(KNOWLEDGE)))
def test_who_chooses_nothing_is_inside_all_limits_whatever_is_known(site: Site, known: str):
    admission = site.admit({}, KNOWLEDGE[known])
    assert admission is None or list_broken_limits(admission, site.allow(KNOWLEDGE[known])) == []


@MANY_ARE_REFUSED
@given(SITES, st.sampled_from(sorted(KNOWLEDGE)), CHOICES)
def test_no_policy_refuses_later_what_was_admitted_while_less_was_known(
    site: Site, known: str, options: dict[str, Any]
):
    limits = site.allow(KNOWLEDGE[known])
    admission = site.admit(options, KNOWLEDGE[known])
    # A choice of several types is one of fewer while nodes that have some of them are not known.
    assume(admission is not None and (admission.gpu is None or not admission.gpu.members))
    saved = build_options(admission.selection, limits.catalog)
    assert find_refusals(saved, site.allow(KNOWN)) == ()


def find_refusals(options: Any, limits: Allowance) -> tuple[Problem, ...]:
    """Return why the policy refuses a choice; a choice that is wrong for every user is not refused by it."""
    try:
        admit(options, limits)
    except PolicyError as error:
        return error.problems
    except SelectionError:
        pass
    return ()
