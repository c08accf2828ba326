"""From checked settings of who may have what to the core's values."""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.catalog.policy_rules import AmountRange, GPUPool, GPUTypeRule, Policy, Rule, normalize_group
from gpuspawner.settings.policy_entries import CPURange, MemoryRange, PolicySetting, PoolEntry, RuleEntry, TypeLimits


def convert_policy(setting: PolicySetting | None, *, pools: Mapping[str, PoolEntry]) -> Policy | None:
    """Return what settings say, None where they say nothing of it.

    :param pools: enabled ones, in the order they are told.
    """
    if setting is None and not pools:
        return None
    said = setting or PolicySetting()
    return Policy(
        hide=said.hide,
        default=_convert_rule(said.default),
        groups={normalize_group(name): _convert_rule(entry) for name, entry in said.groups.items() if entry.enabled},
        users={name: _convert_rule(entry) for name, entry in said.users.items() if entry.enabled},
        pools={slug: _convert_pool(slug, entry) for slug, entry in pools.items()},
    )


def _convert_rule(entry: RuleEntry) -> Rule:
    return Rule(
        images=None if entry.images is None else frozenset(entry.images),
        custom_images=entry.custom_images,
        gpus=None if entry.gpus is None else {slug: _convert_limits(of_type) for slug, of_type in entry.gpus.items()},
        max_gpus=entry.max_gpus,
        max_gpus_per_server=entry.max_gpus_per_server,
        max_servers_with_gpu=entry.max_servers_with_gpu,
        cpu=_convert_range(entry.cpu),
        memory=_convert_range(entry.memory),
        max_runtime_s=entry.max_runtime,
        deny=entry.deny,
    )


def _convert_range(entry: CPURange | MemoryRange | None) -> AmountRange | None:
    return None if entry is None else AmountRange(min=entry.min, max=entry.max)


def _convert_pool(slug: str, entry: PoolEntry) -> GPUPool:
    return GPUPool(
        slug=slug,
        display_name=entry.display_name or slug,
        groups=frozenset(normalize_group(group) for group in entry.groups or ()),
        gpus=frozenset(entry.gpus),
        max_gpus=entry.max_gpus or 0,
    )


def _convert_limits(entry: TypeLimits) -> GPUTypeRule:
    return GPUTypeRule(
        max_gpus=entry.max_gpus,
        max_gpus_per_server=entry.max_gpus_per_server,
        max_runtime_s=entry.max_runtime,
    )
