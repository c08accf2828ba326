"""Model the admin's policy: rules for users and groups, and pools of GPUs that groups share.

:mod:`gpuspawner.core.policy.rules` merges the rules that apply to a user.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema

from gpuspawner.core.units.duration import parse_duration
from gpuspawner.core.units.quantity import parse_cpu, parse_memory
from gpuspawner.core.value_types import (
    CPU_SCHEMA,
    MEMORY_SCHEMA,
    NO_DEFAULT,
    RUN_TIME_SCHEMA,
    UNLIMITED_AMOUNT,
    WILDCARD_SCHEMA,
    CPUs,
    Entry,
    FromSettings,
    GroupName,
    Many,
    Memory,
    Named,
    Slug,
    UserName,
    allow_unlimited,
    setting,
)

UNLIMITED = sys.maxsize
"""Value of a limit in a rule: the rule explicitly allows any amount."""
ANY = "*"
"""Wildcard in a rule: every image, or every GPU type that the rule does not name."""


def normalize_group(group: str) -> str:
    """Return a group name normalized for comparison: identity providers differ in letter case and Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", group).casefold())


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


_LISTED = {"type": "array", "items": {"type": "string"}}
_WHOLE = {"type": "integer", "minimum": 0}
CountLimit = Annotated[int, BeforeValidator(_parse_count_limit), WithJsonSchema(allow_unlimited(_WHOLE))]
"""A whole number of at least 0, or ``unlimited``, which becomes the number :data:`UNLIMITED`."""
RunTimeLimit = Annotated[int, BeforeValidator(_parse_run_time_limit), WithJsonSchema(allow_unlimited(RUN_TIME_SCHEMA))]
"""A run time such as ``8h``, converted to seconds, or ``unlimited``, which becomes the number ``UNLIMITED``."""
CPULimit = Annotated[int, BeforeValidator(_parse_cpu_limit), WithJsonSchema(allow_unlimited(CPU_SCHEMA))]
"""An amount of CPU in millicores, or ``unlimited``, which becomes the number ``UNLIMITED``."""
MemoryLimit = Annotated[int, BeforeValidator(_parse_memory_limit), WithJsonSchema(allow_unlimited(MEMORY_SCHEMA))]
"""An amount of memory in bytes, or ``unlimited``, which becomes the number ``UNLIMITED``."""
SlugList = Annotated[Many[Slug], BeforeValidator(_parse_slugs), WithJsonSchema({"anyOf": [WILDCARD_SCHEMA, _LISTED]})]
"""A list of slugs in the settings, or ``*`` for all slugs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountRange(FromSettings):
    """Smallest and largest allowed amount in base units (millicores or bytes); None = no limit given."""

    min: int | None = None
    max: int | None = None


_LEAST = "Least that a user may choose. Omitted: as for all users."
_MOST = "Most that a user may choose, or unlimited. Omitted: as for all users."


@dataclass(frozen=True, slots=True, kw_only=True)
class CPURange(AmountRange):
    """A rule's bounds of the CPU limit, within the bounds for all users."""

    min: Annotated[CPUs | None, setting(_LEAST)] = None
    max: Annotated[CPULimit | None, setting(_MOST)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRange(AmountRange):
    """A rule's bounds of the memory limit, within the bounds for all users."""

    min: Annotated[Memory | None, setting(_LEAST)] = None
    max: Annotated[MemoryLimit | None, setting(_MOST)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUTypeRule(FromSettings):
    """A rule's limits for one GPU type."""

    max_gpus: Annotated[CountLimit | None, setting("GPUs in all servers of a user together.")] = None
    max_gpus_per_server: Annotated[CountLimit | None, setting("GPUs in one server.")] = None
    max_runtime_s: Annotated[
        RunTimeLimit | None, setting("Time after which each server with the type is stopped.", alias="max_runtime")
    ] = None


def _parse_types(value: object) -> object:
    types = _parse_slugs(value)
    if isinstance(types, list) and all(isinstance(slug, str) for slug in types):
        return {slug: {} for slug in types}
    if not isinstance(types, dict):
        raise ValueError("must be *, a list of GPU types, or a mapping of GPU types and their limits")  # noqa: TRY004
    return types


class _ListedTypesSchema:
    """Annotation of a mapping with GPU types as keys. It makes the JSON Schema also accept a list, or ``*`` for all."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [WILDCARD_SCHEMA, _LISTED, handler(schema)]}


GPUTypeRules = Annotated[Named[str, GPUTypeRule], BeforeValidator(_parse_types), _ListedTypesSchema()]
"""Limits that a policy rule sets for GPU types: slug of a type → limits.

The key :data:`ANY` stands for all types that the mapping does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(FromSettings):
    """A rule for all users, the users of a group, or one user. If a key is omitted, the rule sets no such limit.

    :param sources: in a merged rule, the ``gpus`` of each rule without ``deny``; may be empty if there is only one.
        :func:`gpuspawner.core.policy.rules.find_member_rule` reads ``sources`` and ``caps``.
    :param caps: in a merged rule, the ``gpus`` of each rule with ``deny``.
    """

    images: Annotated[SlugList | None, setting("Slugs of images that the user may choose, or *.")] = None
    custom_images: Annotated[
        bool | None,
        setting(
            "Whether the user may enter image references; true allows no more than custom_images. Omitted:"
            " false if images lists some."
        ),
    ] = None
    gpus: Annotated[
        GPUTypeRules | None,
        setting("GPU types that the user may choose: *, slugs, or slugs with limits, where * means all others."),
    ] = None
    max_gpus: Annotated[CountLimit | None, setting("GPUs in all servers of a user together.")] = None
    max_gpus_per_server: Annotated[CountLimit | None, setting("GPUs in one server, of any type.")] = None
    max_servers_with_gpu: Annotated[CountLimit | None, setting("Servers with a GPU of one user.")] = None
    cpu: Annotated[CPURange | None, setting("Bounds of the CPU limit, within those for all users.")] = None
    memory: Annotated[MemoryRange | None, setting("Bounds of the memory limit, within those for all users.")] = None
    max_runtime_s: Annotated[
        RunTimeLimit | None, setting("Time after which each server is stopped.", alias="max_runtime")
    ] = None
    deny: Annotated[bool, setting("True: the rule caps what other rules allow, and allows nothing itself.")] = False
    sources: tuple[GPUTypeRules, ...] = field(default=(), compare=False, repr=False)
    caps: tuple[GPUTypeRules, ...] = field(default=(), compare=False, repr=False)

    def allows_image(self, slug: str) -> bool:
        """Return whether the rule allows an image."""
        return self.images is None or slug in self.images or ANY in self.images

    def find_type_rule(self, slug: str) -> GPUTypeRule | None:
        """Return the limits for a GPU type, or None if the type is not allowed.

        If the rule does not set ``gpus``, each type is allowed without limits.
        """
        if self.gpus is None:
            return GPUTypeRule()
        return self.gpus.get(slug, self.gpus.get(ANY))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRule(Rule):
    """A rule for a group or a user, which may come from several values files."""

    enabled: Annotated[bool, setting("False disables the rule without removing it.")] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUPool(Entry):
    """GPUs that the users of some groups share."""

    groups: Annotated[Many[GroupName], setting("Groups whose members share the pool."), NO_DEFAULT] = ()
    gpus: Annotated[SlugList, setting("GPU types that count here, or *.")] = (ANY,)
    max_gpus: Annotated[CountLimit, setting("GPUs that all their servers together may hold."), NO_DEFAULT] = 0

    def covers_any(self, slugs: Collection[str]) -> bool:
        """Return whether servers with a GPU type count against the pool.

        :param slugs: the slug of the GPU type; for a combined type also the slugs of the types that it combines.
        """
        return ANY in self.gpus or any(slug in self.gpus for slug in slugs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The user that a server is for.

    :param name: the JupyterHub user name.
    :param groups: group names as the hub has them; None = they could not be read.
    """

    name: str
    groups: frozenset[str] | None = frozenset()

    @property
    def normalized_groups(self) -> frozenset[str]:
        """The user's group names, normalized for comparison."""
        return frozenset(normalize_group(group) for group in self.groups or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The users who may choose one image, GPU type or preset: members of groups, and single users.

    :param groups: normalized group names.
    :param users: user names.
    """

    groups: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    def admits(self, person: Person) -> bool:
        """Return whether a user is among ``users`` or a member of one of ``groups``; unknown groups count as none."""
        return person.name in self.users or not self.groups.isdisjoint(person.normalized_groups)


AccessKey = tuple[str, ...]
"""Names one choice in the form, for example ``("image", "pytorch")`` or ``("gpu", "a100")``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(FromSettings):
    """Who may have what.

    :param pools: slug → pool of GPUs that groups share.
    :param access: choice → the users who may choose it; a missing choice is open to all. Rules may still deny it.
    :param group_names: names of all groups in ``groups``, ``pools`` and ``access``, as the admin wrote them.
    :param gpu_names: slugs of all GPU types that a rule, a pool or ``access`` names.
    """

    hide: Annotated[bool, setting("True: the form omits what the user may never have.")] = False
    default: Annotated[Rule, setting("Limits of all users.")] = field(default_factory=Rule)
    groups: Annotated[
        Named[GroupName, NamedRule],
        setting("Rules by group. They replace the default, key by key; the most generous group wins."),
    ] = field(default_factory=dict)
    users: Annotated[
        Named[UserName, NamedRule], setting("Rules by user name. They replace all others, key by key.")
    ] = field(default_factory=dict)
    pools: Mapping[str, GPUPool] = field(default_factory=dict)
    access: Mapping[AccessKey, Access] = field(default_factory=dict)
    group_names: frozenset[str] = frozenset()
    gpu_names: frozenset[str] = frozenset()

    @property
    def depends_on_groups(self) -> bool:
        """Whether any limit depends on a user's groups."""
        return bool(self.groups or self.pools) or any(each.groups for each in self.access.values())

    def admits(self, person: Person, *key: str) -> bool:
        """Return whether ``allowed_groups`` and ``allowed_users`` of an image, GPU type or preset let a user choose it.

        :param key: the :data:`AccessKey` of the choice.
        """
        access = self.access.get(key)
        return access is None or access.admits(person)
