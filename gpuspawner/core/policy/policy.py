"""Who may have what: an admin's rules, and what they come to for one person.

A rule says nothing of what it leaves out. Rules are put together in this order: ``default`` holds for everybody; each
of a person's groups lays its own keys over it, and key by key the most generous of these groups wins; groups with
``deny`` then cap the outcome, the strictest of them by what they say; last come the person's own keys.

Groups are compared as :func:`gpuspawner.core.catalog.policy_rules.normalize_group` has them, names of people as they
are.
"""

from __future__ import annotations

from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.catalog.policy_rules import Person, Policy, Rule
from gpuspawner.core.policy.policy_merge import cap_rule, merge_most_generous, overlay_rule


def resolve_rule(policy: Policy, person: Person) -> Rule:
    """Return what all rules come to for a person; groups that could not be read count as none."""
    mine = [policy.groups[group] for group in sorted(person.normalized_groups) if group in policy.groups]
    given = [overlay_rule(policy.default, rule) for rule in mine if not rule.deny]
    outcome = merge_most_generous(given) if given else policy.default
    for rule in mine:
        outcome = cap_rule(outcome, rule) if rule.deny else outcome
    own = policy.users.get(person.name)
    if own is None:
        return outcome
    return cap_rule(outcome, own) if own.deny else overlay_rule(outcome, own)


def find_gpu_pools(policy: Policy | None, person: Person, *, gpu: GPUType | None) -> tuple[str, ...]:
    """Return the slugs of all pools that a person's server with a GPU type counts towards, in the order of settings."""
    if policy is None or gpu is None:
        return ()
    groups, slugs = person.normalized_groups, (gpu.slug, *(each.slug for each in gpu.members))
    return tuple(
        pool.slug for pool in policy.pools.values() if pool.covers_any(slugs) and not groups.isdisjoint(pool.groups)
    )
