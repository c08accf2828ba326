"""Merges the admin's rules into one rule for a user.

:func:`resolve_rule` merges in this order:

1. The ``default`` rule applies to every user.
2. Rules of the user's groups without ``deny``: each overrides keys of the default. Then, for each key, the most
   generous of these rules wins; no limit is the most generous.
3. Rules of the user's groups with ``deny`` restrict the result.
4. The user's own rule overrides keys of the result, or restricts the result if the rule has ``deny``.

In steps 3 and 4, a key that a rule leaves out changes nothing.
:func:`gpuspawner.core.catalog.policy_model.normalize_group` normalizes group names; user names are compared without
normalization.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.policy_model import ANY, AmountRange, GPUTypeRule, GPUTypeRules, Person, Policy, Rule

_LIMITS = ("max_gpus", "max_gpus_per_server", "max_servers_with_gpu", "max_runtime_s")
_NOT_KEYS = ("deny", "sources", "caps")
_TYPE_LIMITS = ("max_gpus", "max_gpus_per_server", "max_runtime_s")


def overlay_rule(base: Rule, own: Rule) -> Rule:
    """Return the rule ``base`` with the values of ``own`` for the keys that ``own`` sets.

    Minimum and maximum of CPU and memory count as separate keys.
    """
    own_keys = {each.name: getattr(own, each.name) for each in fields(Rule) if each.name not in _NOT_KEYS}
    own_keys = {name: value for name, value in own_keys.items() if value is not None}
    for name in ("cpu", "memory"):
        if name in own_keys and getattr(base, name) is not None:
            under, over = getattr(base, name), own_keys[name]
            own_keys[name] = AmountRange(
                min=under.min if over.min is None else over.min, max=under.max if over.max is None else over.max
            )
    if own.gpus is not None:
        own_keys |= {"sources": own.sources, "caps": own.caps}
    return replace(base, **own_keys)


def merge_most_generous(rules: Sequence[Rule]) -> Rule:
    """Return a rule with the most generous value for each key. If a rule lacks a key, the result has no limit for it.

    :param rules: at least one.
    """
    outcome = reduce(_merge_generous, rules)
    if outcome.gpus is None:
        return outcome
    # Group rules without `gpus` have the default rule's `gpus` (the same object). Keep it only once.
    sources = {id(each): each for rule in rules for each in _list_sources(rule)}
    return replace(outcome, sources=tuple(sources.values()))


def cap_rule(rule: Rule, cap: Rule) -> Rule:
    """Return a rule that allows only what both rules allow.

    :param cap: the limiting rule; keys that this rule leaves out limit nothing.
    """
    limits = {name: _join_present(getattr(rule, name), getattr(cap, name), join=min) for name in _LIMITS}
    if rule.gpus is not None and cap.gpus is not None:
        limits |= {"sources": _list_sources(rule), "caps": (*rule.caps, cap.gpus)}
    return replace(
        rule,
        images=_join_present(rule.images, cap.images, join=_intersect_slugs),
        custom_images=_join_present(rule.custom_images, cap.custom_images, join=lambda a, b: a and b),
        gpus=_join_present(rule.gpus, cap.gpus, join=lambda a, b: _join_types(a, b, either=False, join=_cap_type)),
        cpu=_join_present(rule.cpu, cap.cpu, join=_narrow_range),
        memory=_join_present(rule.memory, cap.memory, join=_narrow_range),
        **limits,
    )


def find_member_rule(rule: Rule, slug: str, *, combined: str) -> GPUTypeRule | None:
    """Return the limits of a member of a combined GPU type, for servers with the combined type; None without limits.

    A combined type, such as "any GPU with at least 40 GB", stands for several GPU types, its members. The result
    depends on the rules from which the user's rule was merged:

    - Rules without ``deny``, if they allow the combined type: the most generous of their limits for the member applies
      (no limit is the most generous).
    - Rules with ``deny``: all their limits for the member apply, too.

    :param rule: the user's rule, merged from the default, the groups' rules and the user's own rule.
    """
    if rule.gpus is None:
        return None
    sources = [types for types in _list_sources(rule) if _look_up_type(combined, types) is not None]
    named = [each for types in sources if (each := _look_up_type(slug, types)) is not None]
    found = _merge_generous_types(named) if named and len(named) == len(sources) else None
    return reduce(lambda one, cap: _join_present(one, _look_up_type(slug, cap), join=_cap_type), rule.caps, found)


def _merge_generous(one: Rule, other: Rule) -> Rule:
    limits = {name: _join_if_both(getattr(one, name), getattr(other, name), join=max) for name in _LIMITS}
    return Rule(
        images=_join_if_both(one.images, other.images, join=lambda a, b: tuple(sorted({*a, *b}))),
        custom_images=_join_if_both(one.custom_images, other.custom_images, join=lambda a, b: a or b),
        gpus=_join_if_both(
            one.gpus, other.gpus, join=lambda a, b: _join_types(a, b, either=True, join=_merge_generous_type)
        ),
        cpu=_join_if_both(one.cpu, other.cpu, join=_widen_range),
        memory=_join_if_both(one.memory, other.memory, join=_widen_range),
        **limits,
    )


def _join_present(one: Any, other: Any, *, join: Callable[[Any, Any], Any]) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return join(one, other)


def _join_if_both(one: Any, other: Any, *, join: Callable[[Any, Any], Any]) -> Any:
    return None if one is None or other is None else join(one, other)


def _intersect_slugs(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    if ANY in one or ANY in other:
        return other if ANY in one else one
    return tuple(slug for slug in one if slug in other)


def _join_types(
    one: GPUTypeRules,
    other: GPUTypeRules,
    *,
    either: bool,
    join: Callable[[GPUTypeRule, GPUTypeRule], GPUTypeRule],
) -> dict[str, GPUTypeRule]:
    """Merge the ``gpus`` of two rules; the key ``*`` stands for all GPU types that a rule does not name.

    ``join`` merges the limits of a type that both rules allow. If ``either`` is True, the result also has the types
    that only one rule allows.
    """
    joined = {}
    for slug in dict.fromkeys([*one, *other]):
        first, second = _look_up_type(slug, one), _look_up_type(slug, other)
        if first is not None and second is not None:
            joined[slug] = join(first, second)
        elif either:
            joined[slug] = first or second or GPUTypeRule()
    return joined


def _look_up_type(slug: str, types: GPUTypeRules) -> GPUTypeRule | None:
    return types.get(slug, types.get(ANY))


def _list_sources(rule: Rule) -> tuple[GPUTypeRules, ...]:
    return rule.sources or (() if rule.gpus is None else (rule.gpus,))


def _merge_generous_type(one: GPUTypeRule, other: GPUTypeRule) -> GPUTypeRule:
    return _merge_generous_types((one, other))


def _merge_generous_types(rules: Sequence[GPUTypeRule]) -> GPUTypeRule:
    limits_by_name = {name: [getattr(rule, name) for rule in rules] for name in _TYPE_LIMITS}
    return GPUTypeRule(**{name: None if None in limits else max(limits) for name, limits in limits_by_name.items()})


def _cap_type(one: GPUTypeRule, other: GPUTypeRule) -> GPUTypeRule:
    return GPUTypeRule(
        **{name: _join_present(getattr(one, name), getattr(other, name), join=min) for name in _TYPE_LIMITS}
    )


def _widen_range(one: AmountRange, other: AmountRange) -> AmountRange:
    return AmountRange(min=_join_if_both(one.min, other.min, join=min), max=_join_if_both(one.max, other.max, join=max))


def _narrow_range(one: AmountRange, other: AmountRange) -> AmountRange:
    return AmountRange(min=_join_present(one.min, other.min, join=max), max=_join_present(one.max, other.max, join=min))


def resolve_rule(policy: Policy, person: Person) -> Rule:
    """Return the merged rule of a user.

    :param person: the user, with the user's groups. If the hub could not read the groups, only the default and the
        user's own rule are merged.
    """
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
    """Return the slugs of the GPU pools that a server counts towards, in the order of the settings.

    A GPU pool limits how many GPUs all users of its groups may use together.

    :param policy: all rules of the admin; None = no pools.
    :param person: the server's user, with the user's groups.
    :param gpu: the server's GPU type, None without a GPU.
    """
    if policy is None or gpu is None:
        return ()
    groups, slugs = person.normalized_groups, (gpu.slug, *(each.slug for each in gpu.members))
    return tuple(
        pool.slug for pool in policy.pools.values() if pool.covers_any(slugs) and not groups.isdisjoint(pool.groups)
    )
