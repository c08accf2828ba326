"""Collects all limits on the number of GPUs in one more server.

Limits come from the user's rule, from GPU pools (GPU limits shared by groups) and from the namespace's ResourceQuotas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.catalog.policy_model import UNLIMITED, GPUTypeRule, Person, Rule
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.rules import find_gpu_pools, find_member_rule
from gpuspawner.core.policy.usage import ServerUsage, Usage, is_known_type

TypeRules = tuple[tuple[GPUType, GPUTypeRule], ...]
"""Pairs of a GPU type and the user's limits for that type.

The first pair is for the server's GPU type. If the server's type is a combined type ("any of these GPU types"), a pair
follows for each member that has limits.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPULimit:
    """One limit on the number of GPUs in a server.

    :param left: GPUs that the limit leaves for this server; 0 or less = none.
    :param code: code of the denial, from :mod:`gpuspawner.core.policy.denials`.
    :param explain: returns the text for the user.
    """

    left: int
    code: str
    explain: Callable[[], str]

    @property
    def is_permanent(self) -> bool:
        """Whether the limit leaves no GPU even while no server runs: the policy sets 0, or forbids the GPU type."""
        return self.code == denials.GPU_NOT_ALLOWED


def list_gpu_limits(
    gpu: GPUType, catalog: Catalog, *, person: Person, rule: Rule, usage: Usage
) -> tuple[GPULimit, ...]:
    """Return all limits on how many GPUs of a type one more server may have, except the type's ``max_count``.

    A server with a combined type must stay within the limits of all members of the type, because kube-scheduler decides
    only after the check which of these GPUs the server gets.

    :param gpu: a type of the catalog.
    :param catalog: the catalog without any user's limits.
    :param rule: the user's rule, merged from the default, the groups' rules and the user's own rule.
    """
    type_rules = tuple(list_type_rules(gpu, rule))
    if not type_rules or type_rules[0][0] is not gpu or not _admits(gpu, catalog, person=person):
        explain = partial(denials.explain_not_allowed, gpu.display_name)
        return (GPULimit(left=0, code=denials.GPU_NOT_ALLOWED, explain=explain),)
    per_server = _list_per_server_limits(type_rules, rule)
    namespace = _list_namespace_limits(gpu, usage)
    counted = [
        *_list_total_limits(type_rules, catalog, rule=rule, usage=usage),
        *_list_pool_limits(gpu, catalog, person=person, usage=usage),
    ]
    # Without knowing which GPUs are in use, the hub denies the type for now. Permanent limits, such as 0, apply anyway.
    if counted and not usage.known:
        permanent = (each for each in counted if each.is_permanent)
        counted = [*permanent, GPULimit(left=0, code=denials.POLICY_UNREADABLE, explain=denials.explain_usage_unknown)]
    return (*per_server, *counted, *namespace)


def list_possible_types(gpus: PodGPUs, catalog: Catalog, *, person: Person, rule: Rule) -> tuple[GPUType, ...]:
    """Return the GPU types that a pod may get, each of which the pod's user has to be allowed.

    A pod that names a combined type gets this type, or else its members if only they are allowed.

    For GPUs of no known type, or with a label that no known type has, the result has a type without a slug, which a
    rule allows only by :data:`.ANY`. If only some of a pod's several resources have known types, the result also has
    all types of these resources, because :attr:`.PodGPUs.types` is then empty. A pod that may get GPUs of a new type
    may get each type that the policy names and the catalog lacks: its nodes may come later, or the hub cannot read
    them.

    :param gpus: GPUs of a pod that asks for at least one.
    :param catalog: the catalog without any user's limits.
    """
    known = {gpu.slug: gpu for gpu in (*catalog.hidden, *catalog.gpus.values())}
    slugs = (gpus.gpu,) if gpus.gpu in known else gpus.types
    types = [known[slug] for slug in slugs if slug in known]
    if len(types) == 1 and types[0].members and not _allows_type(types[0], catalog, person=person, rule=rule):
        types = list(types[0].members)
    if not types and len(gpus.counts) > 1:
        types = [gpu for gpu in known.values() if gpu.resource in gpus.counts and not gpu.members]
    if not gpus.types or gpus.names_new:
        types += [_make_new_type("", resource) for resource in gpus.counts]
    if gpus.may_be_new and catalog.policy is not None:
        named = sorted(catalog.policy.gpu_names - known.keys())
        types += [_make_new_type(slug, next(iter(gpus.counts))) for slug in named]
    return tuple(types)


def _make_new_type(slug: str, resource: str) -> GPUType:
    return GPUType(slug=slug, display_name=slug or resource, resource=resource, vendor=find_vendor(resource) or "other")


def _allows_type(gpu: GPUType, catalog: Catalog, *, person: Person, rule: Rule) -> bool:
    is_admitted = catalog.policy is None or catalog.policy.admits(person, "gpu", gpu.slug)
    return is_admitted and rule.find_type_rule(gpu.slug) is not None


def _admits(gpu: GPUType, catalog: Catalog, *, person: Person) -> bool:
    # Check the members of a combined type ("any of these GPU types"), too: the server may get a GPU of any member.
    policy = catalog.policy
    return policy is None or all(policy.admits(person, "gpu", each.slug) for each in (gpu, *gpu.members))


def list_type_rules(gpu: GPUType, rule: Rule) -> Iterator[tuple[GPUType, GPUTypeRule]]:
    """Yield pairs of a GPU type and its limits in a rule.

    The first pair is for the given type, unless the rule does not allow this type. If the given type is a combined
    type, a pair follows for each member for which the rule sets limits.

    :param rule: the user's rule, merged from the default, the groups' rules and the user's own rule.
    """
    members = ((each, find_member_rule(rule, each.slug, combined=gpu.slug)) for each in gpu.members)
    for each, found in ((gpu, rule.find_type_rule(gpu.slug)), *members):
        if found is not None:
            yield each, found


def _list_holders(slug: str, catalog: Catalog, *, usage: Usage) -> list[ServerUsage]:
    return [
        each
        for each in usage.own
        if each.gpu is not None and slug in _list_counted_slugs(each.gpu, catalog, asked=slug)
    ]


def _list_server_names(servers: Collection[ServerUsage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in servers if each.count > 0))


def _choose_code(code: str, most: int) -> str:
    return code if most > 0 else denials.GPU_NOT_ALLOWED


def _list_counted_slugs(slug: str, catalog: Catalog, *, asked: str) -> tuple[str, ...]:
    if not is_known_type(catalog, slug):
        return (asked,)  # GPUs of unknown type count as GPUs of every type.
    gpu = catalog.gpus.get(slug)
    return (slug,) if gpu is None else (slug, *(each.slug for each in gpu.members))


def _list_per_server_limits(type_rules: TypeRules, rule: Rule) -> Iterator[GPULimit]:
    if (most := _normalize_limit(rule.max_gpus_per_server)) is not None:
        code = _choose_code(denials.GPU_QUOTA, most)
        yield GPULimit(left=most, code=code, explain=lambda: denials.explain_per_server_limit(most))
    for each, of_type in type_rules:
        if (limit := _normalize_limit(of_type.max_gpus_per_server)) is not None:
            yield _make_type_per_server_limit(each, limit)


def _list_total_limits(type_rules: TypeRules, catalog: Catalog, *, rule: Rule, usage: Usage) -> Iterator[GPULimit]:
    held_by = _list_server_names(usage.own)
    if (servers := _normalize_limit(rule.max_servers_with_gpu)) is not None:
        yield GPULimit(
            left=0 if len(held_by) >= servers else UNLIMITED,
            code=_choose_code(denials.SERVER_QUOTA, servers),
            explain=lambda: denials.explain_server_limit(servers, held_by=held_by),
        )
    if (most := _normalize_limit(rule.max_gpus)) is not None:
        used = sum(each.count for each in usage.own)
        yield GPULimit(
            left=most - used,
            code=_choose_code(denials.GPU_QUOTA, most),
            explain=lambda: denials.explain_total_limit(most, used=used, held_by=held_by),
        )
    for each, of_type in type_rules:
        if (limit := _normalize_limit(of_type.max_gpus)) is not None:
            yield _make_type_total_limit(each, limit, holders=_list_holders(each.slug, catalog, usage=usage))


def _make_type_per_server_limit(gpu: GPUType, most: int) -> GPULimit:
    code = _choose_code(denials.GPU_QUOTA, most)
    return GPULimit(left=most, code=code, explain=lambda: denials.explain_per_server_limit(most, gpu=gpu.display_name))


def _make_type_total_limit(gpu: GPUType, most: int, *, holders: Collection[ServerUsage]) -> GPULimit:
    used, held_by = sum(each.count for each in holders), _list_server_names(holders)
    return GPULimit(
        left=most - used,
        code=_choose_code(denials.GPU_QUOTA, most),
        explain=lambda: denials.explain_total_limit(most, used=used, held_by=held_by, gpu=gpu.display_name),
    )


def _list_pool_limits(gpu: GPUType, catalog: Catalog, *, person: Person, usage: Usage) -> Iterator[GPULimit]:
    if catalog.policy is None:
        return
    for slug in find_gpu_pools(catalog.policy, person, gpu=gpu):
        pool = catalog.policy.pools[slug]
        if _normalize_limit(pool.max_gpus) is not None:
            yield _make_pool_limit(pool.display_name, pool.max_gpus, used=usage.pools.get(slug, 0))


def _make_pool_limit(name: str, most: int, *, used: int) -> GPULimit:
    code = _choose_code(denials.POOL_QUOTA, most)
    return GPULimit(left=most - used, code=code, explain=lambda: denials.explain_pool_limit(most, used=used, pool=name))


def _list_namespace_limits(gpu: GPUType, usage: Usage) -> Iterator[GPULimit]:
    left = None if usage.quota is None else usage.quota.left.get(f"requests.{gpu.resource}")
    if left is not None:
        yield GPULimit(
            left=left, code=denials.NAMESPACE_QUOTA, explain=lambda: denials.explain_namespace_quota(max(left, 0))
        )


def _normalize_limit(limit: int | None) -> int | None:
    return None if limit is None or limit >= UNLIMITED else limit
