"""How many GPUs of a type one more server of a person may have, and what it is that says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from gpuspawner.core.catalog.catalogue import Catalogue, GPUType
from gpuspawner.core.catalog.policy_rules import UNLIMITED, Person, Rule, TypeRule
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.policy import pools_for
from gpuspawner.core.policy.policy_merge import of_member
from gpuspawner.core.policy.server_pods import knows
from gpuspawner.core.policy.usage import Server, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One limit of the number of GPUs in a server.

    :param left: what it leaves for this one; 0 or less = nothing.
    :param code: of :mod:`gpuspawner.core.policy.policy.denials`.
    :param say: returns the sentence for people.
    """

    left: int
    code: str
    say: Callable[[], str]

    @property
    def is_never(self) -> bool:
        """Whether it leaves nothing whatever is in use, as a limit of 0 does."""
        return self.code == denials.GPU_NOT_ALLOWED


def ceilings(gpu: GPUType, catalogue: Catalogue, *, person: Person, rule: Rule, usage: Usage) -> tuple[Ceiling, ...]:
    """Return all limits of a type but its own ``max_count``; the type may be had at all.

    One of several types counts as each of them that is named where it is given: nobody knows before which it will be.

    :param rule: what all rules come to for the person.
    """
    counted = [
        *_in_total(gpu, catalogue, rule=rule, usage=usage),
        *_in_pools(gpu, catalogue, person=person, usage=usage),
    ]
    # With a count that nobody knows, no limit could be kept.
    if counted and not usage.known:
        never = (each for each in counted if each.is_never)
        counted = [*never, Ceiling(left=0, code=denials.POLICY_UNREADABLE, say=denials.uncounted)]
    return (*_in_one_server(gpu, rule), *counted, *_in_namespace(gpu, usage))


def used_of(slug: str, catalogue: Catalogue, *, usage: Usage) -> int:
    """Return how many GPUs the person's other servers hold that are, or may be, of a type."""
    return sum(each.count for each in _holders(slug, catalogue, usage=usage))


def type_rules(gpu: GPUType, rule: Rule) -> Iterator[tuple[GPUType, TypeRule]]:
    """Yield a type, and each that it stands for, with what a rule says of it, where it names it."""
    members = ((each, of_member(rule, each.slug, choice=gpu.slug)) for each in gpu.members)
    for each, found in ((gpu, rule.of_type(gpu.slug)), *members):
        if found is not None:
            yield each, found


def _holders(slug: str, catalogue: Catalogue, *, usage: Usage) -> list[Server]:
    return [each for each in usage.own if each.gpu is not None and slug in _slugs(each.gpu, catalogue, asked=slug)]


def _names(servers: Collection[Server]) -> tuple[str, ...]:
    """Return the names of the servers that hold a GPU, each once."""
    return tuple(dict.fromkeys(each.name for each in servers if each.count > 0))


def _quota(code: str, most: int) -> str:
    """Return the code of a limit; one of 0 is no matter of what is in use."""
    return code if most > 0 else denials.GPU_NOT_ALLOWED


def _slugs(slug: str, catalogue: Catalogue, *, asked: str) -> tuple[str, ...]:
    if not knows(catalogue, slug):
        return (asked,)  # of a type that its pod does not tell, or that is gone: it may be this one
    gpu = catalogue.gpus.get(slug)
    return (slug,) if gpu is None else (slug, *(each.slug for each in gpu.members))


def _in_one_server(gpu: GPUType, rule: Rule) -> Iterator[Ceiling]:
    if (most := _limit(rule.max_gpus_per_server)) is not None:
        code = _quota(denials.GPU_QUOTA, most)
        yield Ceiling(left=most, code=code, say=lambda: denials.per_server(most))
    for each, of_type in type_rules(gpu, rule):
        if (limit := _limit(of_type.max_gpus_per_server)) is not None:
            yield _type_per_server(each, limit)


def _in_total(gpu: GPUType, catalogue: Catalogue, *, rule: Rule, usage: Usage) -> Iterator[Ceiling]:
    held_by = _names(usage.own)
    if (servers := _limit(rule.max_servers_with_gpu)) is not None:
        yield Ceiling(
            left=0 if len(held_by) >= servers else UNLIMITED,
            code=_quota(denials.SERVER_QUOTA, servers),
            say=lambda: denials.servers(servers, held_by=held_by),
        )
    if (most := _limit(rule.max_gpus)) is not None:
        used = sum(each.count for each in usage.own)
        yield Ceiling(
            left=most - used,
            code=_quota(denials.GPU_QUOTA, most),
            say=lambda: denials.in_total(most, used=used, held_by=held_by),
        )
    for each, of_type in type_rules(gpu, rule):
        if (limit := _limit(of_type.max_gpus)) is not None:
            yield _type_in_total(each, limit, holders=_holders(each.slug, catalogue, usage=usage))


def _type_per_server(gpu: GPUType, most: int) -> Ceiling:
    code = _quota(denials.GPU_QUOTA, most)
    return Ceiling(left=most, code=code, say=lambda: denials.per_server(most, gpu=gpu.display_name))


def _type_in_total(gpu: GPUType, most: int, *, holders: Collection[Server]) -> Ceiling:
    used, held_by = sum(each.count for each in holders), _names(holders)
    return Ceiling(
        left=most - used,
        code=_quota(denials.GPU_QUOTA, most),
        say=lambda: denials.in_total(most, used=used, held_by=held_by, gpu=gpu.display_name),
    )


def _in_pools(gpu: GPUType, catalogue: Catalogue, *, person: Person, usage: Usage) -> Iterator[Ceiling]:
    if catalogue.policy is None:
        return
    for slug in pools_for(catalogue.policy, person, gpu=gpu):
        pool = catalogue.policy.pools[slug]
        if _limit(pool.max_gpus) is not None:
            yield _pool(pool.display_name, pool.max_gpus, used=usage.pools.get(slug, 0))


def _pool(name: str, most: int, *, used: int) -> Ceiling:
    code = _quota(denials.POOL_QUOTA, most)
    return Ceiling(left=most - used, code=code, say=lambda: denials.in_pool(most, used=used, pool=name))


def _in_namespace(gpu: GPUType, usage: Usage) -> Iterator[Ceiling]:
    left = None if usage.quota is None else usage.quota.left.get(f"requests.{gpu.resource}")
    if left is not None:
        yield Ceiling(left=left, code=denials.NAMESPACE_QUOTA, say=lambda: denials.in_namespace(max(left, 0)))


def _limit(limit: int | None) -> int | None:
    """Return a limit, None where it is none."""
    return None if limit is None or limit >= UNLIMITED else limit
