"""Defines the types of single values in settings, with their JSON Schema.

The patterns in the JSON Schema repeat the syntax of gpuspawner's parsers, so that editors and Helm can check values.
Helm uses Go's regular expressions, so the patterns contain no lookahead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from gpuspawner.core.catalog.image_reference import parse_origin
from gpuspawner.core.catalog.model import NO_LIMIT, UNLIMITED_AMOUNT
from gpuspawner.core.units.duration import parse_duration
from gpuspawner.core.units.quantity import parse_cpu, parse_memory, round_up_cpu

UNIT_KEY = "x-unit"
"""Key in a JSON Schema for the kind of an amount, such as ``cpu``. :mod:`gpuspawner.settings.json_schema` formats the
default by this kind, and then removes the key."""

_NUMBER = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_MEMORY_TEXT = rf"^ *{_NUMBER} ?([KMGTkgt][iI]?[bB]?|m([iI][bB]?|[bB])|[bB]) *$"
_CPU_TEXT = rf"^ *{_NUMBER}m? *$"
_DAYS = rf"({_NUMBER} ?[dD]([aA][yY][sS]?)?)?"
_HOURS = rf"({_NUMBER} ?[hH]([oO][uU][rR][sS]?)?)?"
_MINUTES = rf"({_NUMBER} ?[mM]([iI][nN]([uU][tT][eE][sS]?)?)?)?"
_DURATION_TEXT = rf"^ *{_DAYS} ?{_HOURS} ?{_MINUTES} *$"

VERSION_PATTERN = r"^[0-9]{1,3}\.[0-9]{1,3}$"
CPU_SCHEMA: dict[str, Any] = {
    UNIT_KEY: "cpu",
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _CPU_TEXT, "maxLength": 64}],
    "examples": [4, 0.5, "500m"],
}
MEMORY_SCHEMA: dict[str, Any] = {
    UNIT_KEY: "memory",
    "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _MEMORY_TEXT, "maxLength": 64}],
    "examples": ["16G", "512M"],
}
RUN_TIME_SCHEMA: dict[str, Any] = {
    UNIT_KEY: "run_time",
    "type": "string",
    "allOf": [{"pattern": _DURATION_TEXT}, {"pattern": "[0-9]"}],
    "maxLength": 64,
    "examples": ["30m", "8h", "2d"],
}
WILDCARD_SCHEMA: dict[str, Any] = {"const": "*"}


def allow_unlimited(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a limit: an amount or ``unlimited``.

    :param schema: JSON Schema of the amount.
    """
    return {"anyOf": [schema, {"const": UNLIMITED_AMOUNT}]}


def _parse_preset_cpu(value: object) -> int:
    return _parse_preset_limit(value, round_up_cpu)


def _parse_preset_memory(value: object) -> int:
    return _parse_preset_limit(value, parse_memory)


def _parse_preset_limit(value: object, parse: Callable[[object], int]) -> int:
    if value == UNLIMITED_AMOUNT:
        return NO_LIMIT
    if (amount := parse(value)) == 0:
        raise ValueError(f"must be more than 0, or {UNLIMITED_AMOUNT}")
    return amount


Vendor = Literal["nvidia", "amd", "intel"]
GPUVendor = Literal["nvidia", "amd", "intel", "other"]
"""Vendor of a GPU or another accelerator. ``other``: Google's TPUs, AWS Neuron, Intel Gaudi and so on."""
POSSIBLE, NO_NODES = "possible", "none"
NewNodes = Literal["possible", "none"]
"""Whether nodes may be added that neither ``scale_up`` nor a NodePool of Karpenter describes."""

NAME_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
LABEL_VALUE_PATTERN = rf"^({NAME_PATTERN})?$"
DOMAIN_PATTERN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
PATTERN_RULES: dict[str, str] = {}
"""Pattern of a text → the rest of a sentence that says what the pattern requires, such as ``must be the name of …``."""


def require_pattern(pattern: str, *, rule: str, max_length: int | None = None) -> StringConstraints:
    """Return the constraint that a text matches a pattern.

    :param pattern: the regular expression.
    :param rule: what the pattern requires, in words for an error message; begins with "must be".
    :param max_length: maximum number of characters; None for no limit.
    """
    PATTERN_RULES[pattern] = rule
    return StringConstraints(pattern=pattern, max_length=max_length)


OBJECT_NAME = require_pattern(
    rf"^{DOMAIN_PATTERN}$",
    rule="must be the name of an object in Kubernetes: lower-case letters, digits, - and ., such as my-name",
)
"""Constraint of the names of most Kubernetes objects."""

_LONGEST_RUN_TIME_S = 2**31 - 1
"""Largest ``activeDeadlineSeconds``: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/"""


def _require_quoted_version(value: object) -> object:
    """Return a version unchanged; raise ValueError for a number, because YAML reads ``12.10`` as 12.1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Suggest the number in quotes, but not for 12.1: the admin may have written 12.10.
        is_whole = re.fullmatch(r"\d{1,3}\.(0|\d[1-9]|\d\d[1-9])", str(value))
        shown = f', as in "{value}"' if is_whole else ""
        raise ValueError(f"must be in quotes{shown} (YAML takes 12.10 for the number 12.1)")  # noqa: TRY004
    return value


def require_quoted_text(value: object) -> object:
    """Return a value unchanged; reject a number or boolean, which the admin has to quote in YAML.

    :param value: any YAML value.
    :raises ValueError: the value is a number or boolean. The function raises no TypeError, because pydantic does
        not convert a TypeError to a validation error.
    """
    if isinstance(value, bool | int | float):
        raise ValueError(f'must be in quotes, as in "{str(value).lower()}": it is a text')  # noqa: TRY004
    return value


def _parse_image_origin(value: str) -> str:
    origin = parse_origin(value)
    if origin is None:
        raise ValueError("must be a registry or the beginning of names in one, such as ghcr.io or quay.io/jupyter")
    return origin


def _parse_run_time(value: object) -> int:
    run_time_s = parse_duration(value)
    if run_time_s > _LONGEST_RUN_TIME_S:
        raise ValueError(f"must be at most {_LONGEST_RUN_TIME_S // (24 * 60 * 60)} days")
    return run_time_s


CPUs = Annotated[int, BeforeValidator(parse_cpu), WithJsonSchema(CPU_SCHEMA)]
"""An amount of CPU, converted to millicores. The settings contain a number of CPUs, or millicores such as ``500m``."""
Memory = Annotated[int, BeforeValidator(parse_memory), WithJsonSchema(MEMORY_SCHEMA)]
"""An amount of memory, converted to bytes. The settings contain text such as ``16G`` (G = 1024^3, as in JupyterHub), or
a number of bytes."""
PresetCPUs = Annotated[int, BeforeValidator(_parse_preset_cpu), WithJsonSchema(allow_unlimited(CPU_SCHEMA))]
"""A CPU limit of a preset in millicores, rounded up as Kubernetes does; ``unlimited`` becomes ``NO_LIMIT``."""
PresetMemory = Annotated[int, BeforeValidator(_parse_preset_memory), WithJsonSchema(allow_unlimited(MEMORY_SCHEMA))]
"""A memory limit of a preset in bytes; ``unlimited`` becomes ``NO_LIMIT``."""
CPUGuarantee = Annotated[int, BeforeValidator(round_up_cpu), WithJsonSchema(CPU_SCHEMA)]
"""A CPU request in millicores, rounded up as Kubernetes does."""
RunTime = Annotated[int, BeforeValidator(_parse_run_time), WithJsonSchema(RUN_TIME_SCHEMA)]
"""A duration, converted to seconds. The settings contain text such as ``30m``, ``8h``, ``2d`` or ``2h30m``."""
Version = Annotated[
    str,
    BeforeValidator(_require_quoted_version),
    require_pattern(VERSION_PATTERN, rule='must be a version in quotes with two numbers, such as "12.8"'),
    WithJsonSchema({"type": "string", "pattern": VERSION_PATTERN}),
]
UnitFraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
# Keep `max_length` before the validator: in the other order, pydantic's message says "items", not "characters".
Text = Annotated[str, StringConstraints(max_length=2000), BeforeValidator(require_quoted_text)]
ShortText = Annotated[str, StringConstraints(max_length=40), BeforeValidator(require_quoted_text)]
"""Text that is short enough for a badge in the form."""
Title = Annotated[str, StringConstraints(min_length=1, max_length=200), BeforeValidator(require_quoted_text)]
Slug = Annotated[str, BeforeValidator(require_quoted_text)]
Origin = Annotated[str, AfterValidator(_parse_image_origin)]
"""A registry or a prefix of image names, normalized by
:func:`gpuspawner.core.catalog.image_reference.parse_origin`."""
GroupName = Annotated[str, StringConstraints(min_length=1, max_length=255), BeforeValidator(require_quoted_text)]
"""Name of a JupyterHub group; comparisons ignore case."""
UserName = Annotated[str, StringConstraints(min_length=1, max_length=255), BeforeValidator(require_quoted_text)]
LabelKey = Annotated[
    str,
    require_pattern(
        rf"^({DOMAIN_PATTERN}/)?{NAME_PATTERN}$",
        rule="must be the key of a label, such as pool or nvidia.com/gpu.product",
    ),
]
LabelValue = Annotated[
    str,
    BeforeValidator(require_quoted_text),
    require_pattern(
        LABEL_VALUE_PATTERN,
        rule="must be the value of a label or taint: at most 63 letters, digits, -, _ and ., such as Tesla-T4",
    ),
    WithJsonSchema({"type": "string", "pattern": LABEL_VALUE_PATTERN}),
]


class StrictModel(BaseModel):
    """Base class of all settings: rejects unknown keys and converts no types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Entry(StrictModel):
    """Base class of entries in the settings, such as an image in ``images``.

    :param order: sorts the entries, smallest first; entries without ``order`` come last, in the order of the mapping.
    :param enabled: false disables the entry, even if another settings file contains the entry without ``enabled``.
    """

    order: int | None = Field(default=None, description="Sorts entries, smallest first; those without one come after.")
    enabled: bool = Field(default=True, description="False disables the entry without removing it.")
    display_name: Title | None = Field(default=None, description="Name in the form. Omitted: the slug, or the model.")
    description: Text = Field(default="", description="A sentence below the name.")


class RestrictedEntry(Entry):
    """Base class of entries that only some users may choose.

    If ``allowed_groups`` and ``allowed_users`` are both omitted, every user may choose the entry.
    """

    allowed_groups: Annotated[list[GroupName], Field(min_length=1)] | None = Field(
        default=None, description="Groups whose members may choose it. If allowed_users is omitted, too: every user."
    )
    allowed_users: Annotated[list[UserName], Field(min_length=1)] | None = Field(
        default=None, description="Names of users who may choose it, in addition to those of allowed_groups."
    )


class OverridingEntry(RestrictedEntry):
    """Base class of entries that set traits of KubeSpawner."""

    kubespawner_override: dict[str, Any] = Field(
        default_factory=dict,
        description="Traits of KubeSpawner for servers with it, as in a profile: mappings are merged, other values"
        " replace the hub's own.",
    )
