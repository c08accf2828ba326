"""What an admin says of who may have what: rules for everybody, for groups and for single people, and group pools."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from gpuspawner.core.duration import parse_duration
from gpuspawner.core.policy_rules import ANY, UNLIMITED
from gpuspawner.core.quantity import parse_cpu, parse_memory
from gpuspawner.settings.values import Entry, Model, Slug, quoted_text

_UNLIMITED = "unlimited"


def _number(value: object) -> object:
    """Return a limit of a number, as it is written or as none.

    :raises ValueError: it is neither.
    """
    if value == _UNLIMITED:
        return UNLIMITED
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"must be a whole number from 0 on, or {_UNLIMITED}")
    return value


def _run_time(value: object) -> int:
    """Return a limit of a length of time in seconds.

    :raises ValueError: it is none.
    """
    return UNLIMITED if value == _UNLIMITED else parse_duration(value)


def _most_cpu(value: object) -> int:
    return UNLIMITED if value == _UNLIMITED else parse_cpu(value)


def _most_memory(value: object) -> int:
    return UNLIMITED if value == _UNLIMITED else parse_memory(value)


def _slugs(value: object) -> object:
    return [ANY] if value == ANY else value


def _types(value: object) -> object:
    """Return GPU types as a mapping, whichever of three ways they were written.

    :raises ValueError: it is none of them.
    """
    found = _slugs(value)
    if isinstance(found, list) and all(isinstance(slug, str) for slug in found):
        return {slug: {} for slug in found}
    if not isinstance(found, dict):
        raise ValueError("must be *, a list of GPU types, or a mapping of GPU types and their limits")  # noqa: TRY004
    return found


Count = Annotated[int, BeforeValidator(_number)]
"""A number from 0 on; ``unlimited`` is :data:`gpuspawner.core.policy_rules.UNLIMITED`, as for all limits here."""
Longest = Annotated[int, BeforeValidator(_run_time)]
"""Seconds, written as a run time is, or ``unlimited``."""
Slugs = Annotated[list[Slug], BeforeValidator(_slugs)]
"""Slugs, written as a list; ``*`` is all there are."""
Group = Annotated[str, StringConstraints(min_length=1, max_length=255), BeforeValidator(quoted_text)]
"""Name of a group, in any case."""


class CPURange(Model):
    """Bounds of the CPU limit within those of everybody."""

    min: Annotated[int, BeforeValidator(parse_cpu)] | None = None
    max: Annotated[int, BeforeValidator(_most_cpu)] | None = None


class MemoryRange(Model):
    """Bounds of the memory limit within those of everybody."""

    min: Annotated[int, BeforeValidator(parse_memory)] | None = None
    max: Annotated[int, BeforeValidator(_most_memory)] | None = None


class TypeLimits(Model):
    """What a rule says of one GPU type."""

    max_gpus: Count | None = Field(default=None, description="Over all servers of a person.")
    max_gpus_per_server: Count | None = None
    max_runtime: Longest | None = None


class RuleEntry(Model):
    """What is said of everybody, of a group's people or of one person; what is left out is not said."""

    images: Slugs | None = Field(default=None, description="Slugs of images that may be used, or *.")
    custom_images: bool | None = Field(
        default=None, description="Whether images may be named by reference; only less than custom_images allows."
    )
    gpus: Annotated[dict[str, TypeLimits], BeforeValidator(_types)] | None = Field(
        default=None, description="GPU types that may be had: *, slugs, or slugs with limits; * is all others then."
    )
    max_gpus: Count | None = Field(default=None, description="Over all servers of a person.")
    max_gpus_per_server: Count | None = None
    max_servers_with_gpu: Count | None = None
    cpu: CPURange | None = None
    memory: MemoryRange | None = None
    max_runtime: Longest | None = Field(default=None, description="After which every server is stopped.")
    deny: bool = Field(default=False, description="True: caps what other rules give instead of giving anything.")


class NamedRule(RuleEntry):
    """A rule that another values file may have said before.

    :param enabled: false takes the rule out without deleting it there.
    """

    enabled: bool = True


class PolicySetting(Model):
    """Who may have what."""

    hide: bool = Field(default=False, description="True: what is out of reach is not shown at all.")
    default: RuleEntry = Field(default_factory=RuleEntry)
    groups: dict[Group, NamedRule] = Field(default_factory=dict)
    users: dict[Annotated[str, StringConstraints(min_length=1, max_length=255)], NamedRule] = Field(
        default_factory=dict
    )


class PoolEntry(Entry):
    """GPUs that the people of some groups share."""

    groups: list[Group] | None = Field(default=None, description="Groups whose people share the pool.")
    gpus: Slugs = Field(default_factory=lambda: [ANY], description="GPU types that count here, or *.")
    max_gpus: Count | None = None
