"""From checked settings of who may have what to the core's values."""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.catalog.policy_rules import Policy, Pool, Range, Rule, TypeRule, compared
from gpuspawner.settings.policy_entries import CPURange, MemoryRange, PolicySetting, PoolEntry, RuleEntry, TypeLimits


def to_policy(setting: PolicySetting | None, *, pools: Mapping[str, PoolEntry]) -> Policy | None:
    """Return what settings say, None where they say nothing of it.

    :param pools: enabled ones, in the order they are told.
    """
    if setting is None and not pools:
        return None
    said = setting or PolicySetting()
    return Policy(
        hide=said.hide,
        default=_rule(said.default),
        groups={compared(name): _rule(entry) for name, entry in said.groups.items() if entry.enabled},
        users={name: _rule(entry) for name, entry in said.users.items() if entry.enabled},
        pools={slug: _pool(slug, entry) for slug, entry in pools.items()},
    )


def _rule(entry: RuleEntry) -> Rule:
    return Rule(
        images=None if entry.images is None else frozenset(entry.images),
        custom_images=entry.custom_images,
        gpus=None if entry.gpus is None else {slug: _limits(of_type) for slug, of_type in entry.gpus.items()},
        max_gpus=entry.max_gpus,
        max_gpus_per_server=entry.max_gpus_per_server,
        max_servers_with_gpu=entry.max_servers_with_gpu,
        cpu=_range(entry.cpu),
        memory=_range(entry.memory),
        max_runtime_s=entry.max_runtime,
        deny=entry.deny,
    )


def _range(entry: CPURange | MemoryRange | None) -> Range | None:
    return None if entry is None else Range(min=entry.min, max=entry.max)


def _pool(slug: str, entry: PoolEntry) -> Pool:
    return Pool(
        slug=slug,
        display_name=entry.display_name or slug,
        groups=frozenset(compared(group) for group in entry.groups or ()),
        gpus=frozenset(entry.gpus),
        max_gpus=entry.max_gpus or 0,
    )


def _limits(entry: TypeLimits) -> TypeRule:
    return TypeRule(
        max_gpus=entry.max_gpus,
        max_gpus_per_server=entry.max_gpus_per_server,
        max_runtime_s=entry.max_runtime,
    )
