"""How two rules become one: one laid over the other, the more generous of both, or one capped by the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial, reduce
from typing import Any

from gpuspawner.core.policy_rules import ANY, Beside, Range, Rule, TypeRule

_MOST = ("max_gpus", "max_gpus_per_server", "max_servers_with_gpu", "max_runtime_s")
_OF_TYPE = ("max_gpus", "max_gpus_per_server", "max_runtime_s")


def overlaid(base: Rule, own: Rule) -> Rule:
    """Return a rule with what another one says in its place; of CPU and memory, the least and the most are two keys."""
    said = {each.name: getattr(own, each.name) for each in fields(Rule) if each.name != "deny"}
    said = {name: value for name, value in said.items() if value is not None}
    for name in ("cpu", "memory"):
        if name in said and getattr(base, name) is not None:
            under, over = getattr(base, name), said[name]
            said[name] = Range(
                min=under.min if over.min is None else over.min, max=under.max if over.max is None else over.max
            )
    return replace(base, **said)


def most_generous(rules: Sequence[Rule]) -> Rule:
    """Return what the most generous of some rules gives, key by key; nothing said is no limit.

    :param rules: at least one.
    """
    return reduce(_generous, rules)


def capped(rule: Rule, cap: Rule) -> Rule:
    """Return a rule that gives nowhere more than another one, as far as that one says anything."""
    limits = {name: _both(getattr(rule, name), getattr(cap, name), join=min) for name in _MOST}
    return replace(
        rule,
        images=_both(rule.images, cap.images, join=_images_of_both),
        custom_images=_both(rule.custom_images, cap.custom_images, join=lambda a, b: a and b),
        gpus=_both(rule.gpus, cap.gpus, join=lambda a, b: _types(a, b, either=False, join=_capped_type)),
        cpu=_both(rule.cpu, cap.cpu, join=_narrower),
        memory=_both(rule.memory, cap.memory, join=_narrower),
        **limits,
    )


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
    one: Mapping[str, TypeRule],
    other: Mapping[str, TypeRule],
    *,
    either: bool,
    join: Callable[[TypeRule, TypeRule], TypeRule],
) -> dict[str, TypeRule]:
    """Return GPU types of two rules put together; a type that one does not name is what its ``*`` says.

    :param either: a type of only one of them stays, and what only one of them says is no limit.
    """
    joined = {}
    for slug in dict.fromkeys([*one, *other]):
        first, second = _of(slug, one), _of(slug, other)
        if first is not None and second is not None:
            beside = _beside(first, second, join=partial(_if_both if either else _both, join=join))
            joined[slug] = replace(join(first, second), beside=beside)
        elif either:
            joined[slug] = first or second or TypeRule()
    return joined


def _of(slug: str, gpus: Mapping[str, TypeRule]) -> TypeRule | None:
    """Return what is said of a GPU type, with what is said there beside it: elsewhere it would be in other company."""
    found = gpus.get(slug, gpus.get(ANY))
    if found is None or found.beside is not None:
        return found
    return replace(found, beside=lambda other: gpus.get(other, gpus.get(ANY)))


def _beside(one: TypeRule, other: TypeRule, *, join: Callable[[Any, Any], Any]) -> Beside:
    # Asked for few types: those of a choice of several.
    first, second = one.beside, other.beside
    return lambda slug: join(first and first(slug), second and second(slug))


def _generous_type(one: TypeRule, other: TypeRule) -> TypeRule:
    return TypeRule(**{name: _if_both(getattr(one, name), getattr(other, name), join=max) for name in _OF_TYPE})


def _capped_type(one: TypeRule, other: TypeRule) -> TypeRule:
    return TypeRule(**{name: _both(getattr(one, name), getattr(other, name), join=min) for name in _OF_TYPE})


def _wider(one: Range, other: Range) -> Range:
    return Range(min=_if_both(one.min, other.min, join=min), max=_if_both(one.max, other.max, join=max))


def _narrower(one: Range, other: Range) -> Range:
    return Range(min=_both(one.min, other.min, join=max), max=_both(one.max, other.max, join=min))
