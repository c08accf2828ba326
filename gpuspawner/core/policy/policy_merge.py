"""How two rules become one: one laid over the other, the more generous of both, or one capped by the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any

from gpuspawner.core.catalog.policy_rules import ANY, Range, Rule, TypeRule, Types

_MOST = ("max_gpus", "max_gpus_per_server", "max_servers_with_gpu", "max_runtime_s")
_NO_KEYS = ("deny", "sources", "caps")
_OF_TYPE = ("max_gpus", "max_gpus_per_server", "max_runtime_s")


def overlaid(base: Rule, own: Rule) -> Rule:
    """Return a rule with what another one says in its place; of CPU and memory, the least and the most are two keys."""
    said = {each.name: getattr(own, each.name) for each in fields(Rule) if each.name not in _NO_KEYS}
    said = {name: value for name, value in said.items() if value is not None}
    for name in ("cpu", "memory"):
        if name in said and getattr(base, name) is not None:
            under, over = getattr(base, name), said[name]
            said[name] = Range(
                min=under.min if over.min is None else over.min, max=under.max if over.max is None else over.max
            )
    if own.gpus is not None:
        said |= {"sources": own.sources, "caps": own.caps}
    return replace(base, **said)


def most_generous(rules: Sequence[Rule]) -> Rule:
    """Return what the most generous of some rules gives, key by key; nothing said is no limit.

    :param rules: at least one.
    """
    outcome = reduce(_generous, rules)
    if outcome.gpus is None:
        return outcome
    # Groups that say nothing of GPUs all have the same ones.
    sources = {id(each): each for rule in rules for each in _sources(rule)}
    return replace(outcome, sources=tuple(sources.values()))


def capped(rule: Rule, cap: Rule) -> Rule:
    """Return a rule that gives nowhere more than another one, as far as that one says anything."""
    limits = {name: _both(getattr(rule, name), getattr(cap, name), join=min) for name in _MOST}
    if rule.gpus is not None and cap.gpus is not None:
        limits |= {"sources": _sources(rule), "caps": (*rule.caps, cap.gpus)}
    return replace(
        rule,
        images=_both(rule.images, cap.images, join=_images_of_both),
        custom_images=_both(rule.custom_images, cap.custom_images, join=lambda a, b: a and b),
        gpus=_both(rule.gpus, cap.gpus, join=lambda a, b: _types(a, b, either=False, join=_capped_type)),
        cpu=_both(rule.cpu, cap.cpu, join=_narrower),
        memory=_both(rule.memory, cap.memory, join=_narrower),
        **limits,
    )


def of_member(rule: Rule, slug: str, *, choice: str) -> TypeRule | None:
    """Return what a rule says of a GPU type where it may come of a choice of several, None where it says nothing.

    Only limits count beside which the choice is given: that the type itself may be had may come of a rule of another
    group, whose limits take nothing from people who have the choice without them.
    """
    if rule.gpus is None:
        return None
    beside = [_of(slug, types) for types in _sources(rule) if _of(choice, types) is not None]
    named = [each for each in beside if each is not None]
    found = _most_generous_type(named) if named and len(named) == len(beside) else None
    return reduce(lambda one, cap: _both(one, _of(slug, cap), join=_capped_type), rule.caps, found)


def _generous(one: Rule, other: Rule) -> Rule:
    limits = {name: _if_both(getattr(one, name), getattr(other, name), join=max) for name in _MOST}
    return Rule(
        images=_if_both(one.images, other.images, join=frozenset.union),
        custom_images=_if_both(one.custom_images, other.custom_images, join=lambda a, b: a or b),
        gpus=_if_both(one.gpus, other.gpus, join=lambda a, b: _types(a, b, either=True, join=_generous_type)),
        cpu=_if_both(one.cpu, other.cpu, join=_wider),
        memory=_if_both(one.memory, other.memory, join=_wider),
        **limits,
    )


def _both(one: Any, other: Any, *, join: Callable[[Any, Any], Any]) -> Any:
    """Return what two values come to where what is not said leaves the other one."""
    if one is None or other is None:
        return other if one is None else one
    return join(one, other)


def _if_both(one: Any, other: Any, *, join: Callable[[Any, Any], Any]) -> Any:
    """Return what two values come to where what is not said is no limit."""
    return None if one is None or other is None else join(one, other)


def _images_of_both(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    if ANY in one or ANY in other:
        return other if ANY in one else one
    return one & other


def _types(
    one: Types,
    other: Types,
    *,
    either: bool,
    join: Callable[[TypeRule, TypeRule], TypeRule],
) -> dict[str, TypeRule]:
    """Return GPU types of two rules put together; a type that one does not name is what its ``*`` says.

    :param either: a type of only one of them stays.
    """
    joined = {}
    for slug in dict.fromkeys([*one, *other]):
        first, second = _of(slug, one), _of(slug, other)
        if first is not None and second is not None:
            joined[slug] = join(first, second)
        elif either:
            joined[slug] = first or second or TypeRule()
    return joined


def _of(slug: str, types: Types) -> TypeRule | None:
    return types.get(slug, types.get(ANY))


def _sources(rule: Rule) -> tuple[Types, ...]:
    return rule.sources or (() if rule.gpus is None else (rule.gpus,))


def _generous_type(one: TypeRule, other: TypeRule) -> TypeRule:
    return _most_generous_type((one, other))


def _most_generous_type(rules: Sequence[TypeRule]) -> TypeRule:
    said = {name: [getattr(rule, name) for rule in rules] for name in _OF_TYPE}
    return TypeRule(**{name: None if None in limits else max(limits) for name, limits in said.items()})


def _capped_type(one: TypeRule, other: TypeRule) -> TypeRule:
    return TypeRule(**{name: _both(getattr(one, name), getattr(other, name), join=min) for name in _OF_TYPE})


def _wider(one: Range, other: Range) -> Range:
    return Range(min=_if_both(one.min, other.min, join=min), max=_if_both(one.max, other.max, join=max))


def _narrower(one: Range, other: Range) -> Range:
    return Range(min=_both(one.min, other.min, join=max), max=_both(one.max, other.max, join=min))
