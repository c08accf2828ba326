"""Defines the settings ``policy`` and ``pools``, and converts them to a :class:`Policy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema

from gpuspawner.core.catalog.model import UNLIMITED_AMOUNT
from gpuspawner.core.catalog.policy_model import (
    ANY,
    UNLIMITED,
    Access,
    AccessKey,
    AmountRange,
    GPUPool,
    GPUTypeRule,
    Policy,
    Rule,
    normalize_group,
)
from gpuspawner.core.request.field_definitions import POLICY_CHOICES
from gpuspawner.core.units.duration import parse_duration
from gpuspawner.core.units.quantity import parse_cpu, parse_memory
from gpuspawner.settings.value_types import (
    CPU_SCHEMA,
    MEMORY_SCHEMA,
    RUN_TIME_SCHEMA,
    WILDCARD_SCHEMA,
    CPUs,
    Entry,
    GroupName,
    Memory,
    RestrictedEntry,
    Slug,
    StrictModel,
    UserName,
    allow_unlimited,
)


def _parse_count_limit(value: object) -> object:
    if value == UNLIMITED_AMOUNT:
        return UNLIMITED
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"must be a whole number from 0 on, or {UNLIMITED_AMOUNT}")
    return value


def _parse_run_time_limit(value: object) -> int:
    return UNLIMITED if value == UNLIMITED_AMOUNT else parse_duration(value)


def _parse_cpu_limit(value: object) -> int:
    return UNLIMITED if value == UNLIMITED_AMOUNT else parse_cpu(value)


def _parse_memory_limit(value: object) -> int:
    return UNLIMITED if value == UNLIMITED_AMOUNT else parse_memory(value)


def _parse_slugs(value: object) -> object:
    return [ANY] if value == ANY else value


def _parse_types(value: object) -> object:
    found = _parse_slugs(value)
    if isinstance(found, list) and all(isinstance(slug, str) for slug in found):
        return {slug: {} for slug in found}
    if not isinstance(found, dict):
        raise ValueError("must be *, a list of GPU types, or a mapping of GPU types and their limits")  # noqa: TRY004
    return found


class _ListedTypesSchema:
    """Annotation of a mapping with GPU types as keys. It makes the JSON Schema also accept a list, or ``*`` for all."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [WILDCARD_SCHEMA, _LISTED, handler(core)]}


_LISTED = {"type": "array", "items": {"type": "string"}}
_WHOLE = {"type": "integer", "minimum": 0}
CountLimit = Annotated[int, BeforeValidator(_parse_count_limit), WithJsonSchema(allow_unlimited(_WHOLE))]
"""A whole number of at least 0, or ``unlimited``, which becomes the number
:data:`gpuspawner.core.catalog.policy_model.UNLIMITED`."""
RunTimeLimit = Annotated[int, BeforeValidator(_parse_run_time_limit), WithJsonSchema(allow_unlimited(RUN_TIME_SCHEMA))]
"""A run time such as ``8h``, converted to seconds, or ``unlimited``, which becomes the number ``UNLIMITED``."""
SlugList = Annotated[list[Slug], BeforeValidator(_parse_slugs), WithJsonSchema({"anyOf": [WILDCARD_SCHEMA, _LISTED]})]
"""A list of slugs in the settings, or ``*`` for all slugs."""


class CPURange(StrictModel):
    """A rule's bounds of the CPU limit, within the bounds for all users."""

    min: CPUs | None = Field(default=None, description="Least that a user may choose. Omitted: as for all users.")
    max: Annotated[int, BeforeValidator(_parse_cpu_limit), WithJsonSchema(allow_unlimited(CPU_SCHEMA))] | None = Field(
        default=None, description="Most that a user may choose, or unlimited. Omitted: as for all users."
    )


class MemoryRange(StrictModel):
    """A rule's bounds of the memory limit, within the bounds for all users."""

    min: Memory | None = Field(default=None, description="Least that a user may choose. Omitted: as for all users.")
    max: Annotated[int, BeforeValidator(_parse_memory_limit), WithJsonSchema(allow_unlimited(MEMORY_SCHEMA))] | None = (
        Field(default=None, description="Most that a user may choose, or unlimited. Omitted: as for all users.")
    )


class TypeLimits(StrictModel):
    """A rule's limits for one GPU type."""

    max_gpus: CountLimit | None = Field(default=None, description="GPUs in all servers of a user together.")
    max_gpus_per_server: CountLimit | None = Field(default=None, description="GPUs in one server.")
    max_runtime: RunTimeLimit | None = Field(
        default=None, description="Time after which each server with the type is stopped."
    )


class RuleEntry(StrictModel):
    """A rule for all users, the users of a group, or one user. If a key is omitted, the rule sets no such limit."""

    images: SlugList | None = Field(default=None, description="Slugs of images that the user may choose, or *.")
    custom_images: bool | None = Field(
        default=None,
        description="Whether the user may enter image references; true allows no more than custom_images. Omitted:"
        " false if images lists some.",
    )
    gpus: Annotated[dict[str, TypeLimits], BeforeValidator(_parse_types), _ListedTypesSchema()] | None = Field(
        default=None,
        description="GPU types that the user may choose: *, slugs, or slugs with limits, where * means all others.",
    )
    max_gpus: CountLimit | None = Field(default=None, description="GPUs in all servers of a user together.")
    max_gpus_per_server: CountLimit | None = Field(default=None, description="GPUs in one server, of any type.")
    max_servers_with_gpu: CountLimit | None = Field(default=None, description="Servers with a GPU of one user.")
    cpu: CPURange | None = Field(default=None, description="Bounds of the CPU limit, within those for all users.")
    memory: MemoryRange | None = Field(
        default=None, description="Bounds of the memory limit, within those for all users."
    )
    max_runtime: RunTimeLimit | None = Field(default=None, description="Time after which each server is stopped.")
    deny: bool = Field(
        default=False, description="True: the rule caps what other rules allow, and allows nothing itself."
    )


class NamedRule(RuleEntry):
    """A rule for a group or a user, which may come from several values files.

    :param enabled: false disables a rule that another values file contains.
    """

    enabled: bool = Field(default=True, description="False disables the rule without removing it.")


class PolicySetting(StrictModel):
    """Who may have what."""

    hide: bool = Field(default=False, description="True: the form omits what the user may never have.")
    default: RuleEntry = Field(default_factory=RuleEntry, description="Limits of all users.")
    groups: dict[GroupName, NamedRule] = Field(
        default_factory=dict,
        description="Rules by group. They replace the default, key by key; the most generous group wins.",
    )
    users: dict[UserName, NamedRule] = Field(
        default_factory=dict, description="Rules by user name. They replace all others, key by key."
    )


class PoolEntry(Entry):
    """GPUs that the users of some groups share."""

    groups: list[GroupName] | None = Field(default=None, description="Groups whose members share the pool.")
    gpus: SlugList = Field(default_factory=lambda: [ANY], description="GPU types that count here, or *.")
    max_gpus: CountLimit | None = Field(default=None, description="GPUs that all their servers together may hold.")


def convert_policy(
    setting: PolicySetting | None,
    *,
    pools: Mapping[str, PoolEntry],
    restricted: Mapping[AccessKey, RestrictedEntry],
) -> Policy | None:
    """Return the policy, or None if there is no section ``policy``, no pool, and nothing that only some may choose.

    :param setting: the section ``policy``.
    :param pools: enabled pools of GPUs by slug, in the order of the form.
    :param restricted: key of an image, GPU type, preset or entry of a preset's list → its settings.
    """
    access = {key: found for key, entry in restricted.items() if (found := _convert_access(entry)) is not None}
    if setting is None and not pools and not access:
        return None
    policy = setting or PolicySetting()
    rules = {name: entry for name, entry in policy.groups.items() if entry.enabled}
    lists = (*(pool.groups for pool in pools.values()), *(entry.allowed_groups for entry in restricted.values()))
    return Policy(
        hide=policy.hide,
        default=_convert_rule(policy.default),
        groups={normalize_group(name): _convert_rule(entry) for name, entry in rules.items()},
        users={name: _convert_rule(entry) for name, entry in policy.users.items() if entry.enabled},
        pools={slug: _convert_pool(slug, entry) for slug, entry in pools.items()},
        access=access,
        group_names=frozenset(rules).union(*filter(None, lists)),
    )


def _convert_access(entry: RestrictedEntry) -> Access | None:
    """Return which groups and users may choose an entry, such as an image, or None if every user may."""
    if entry.allowed_groups is None and entry.allowed_users is None:
        return None
    return Access(
        groups=frozenset(normalize_group(group) for group in entry.allowed_groups or ()),
        users=frozenset(entry.allowed_users or ()),
    )


def _convert_rule(entry: RuleEntry) -> Rule:
    return Rule(
        choices={
            each.name: frozenset(slugs)
            for each in POLICY_CHOICES
            if (slugs := getattr(entry, each.section)) is not None
        },
        custom_images=_convert_custom_images(entry),
        gpus=None if entry.gpus is None else {slug: _convert_limits(of_type) for slug, of_type in entry.gpus.items()},
        max_gpus=entry.max_gpus,
        max_gpus_per_server=entry.max_gpus_per_server,
        max_servers_with_gpu=entry.max_servers_with_gpu,
        cpu=_convert_range(entry.cpu),
        memory=_convert_range(entry.memory),
        max_runtime_s=entry.max_runtime,
        deny=entry.deny,
    )


def _convert_custom_images(entry: RuleEntry) -> bool | None:
    """Return whether a rule allows custom images, or None if the rule does not decide this.

    A custom image is one that the user names by its reference. A rule without ``custom_images`` forbids them if its
    ``images`` is a list of slugs instead of ``*``.
    """
    lists_images = entry.images is not None and ANY not in entry.images
    return False if entry.custom_images is None and lists_images else entry.custom_images


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
