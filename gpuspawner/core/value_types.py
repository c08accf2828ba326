"""Define the types of values in settings, with their JSON Schema, and the base classes of what settings describe.

The patterns in the JSON Schema repeat the syntax of gpuspawner's parsers, so that editors and Helm can check values.
Helm uses Go's regular expressions, so the patterns contain no lookahead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from inspect import cleandoc
from typing import Annotated, Any, Self, TypeVar, cast, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from gpuspawner.core.units.duration import parse_duration
from gpuspawner.core.units.quantity import parse_cpu, parse_memory

K = TypeVar("K")
T = TypeVar("T")

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
UNLIMITED_AMOUNT = "unlimited"
"""Stands for no limit in settings and presets' options. It is not null, because Helm drops keys set to null."""


def allow_unlimited(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a limit: an amount or ``unlimited``.

    :param schema: JSON Schema of the amount.
    """
    return {"anyOf": [schema, {"const": UNLIMITED_AMOUNT}]}


class OneOf:
    """Annotation of a text from a fixed list, or of the value that stands for the text in the catalog.

    :param names: the texts, if they stand for themselves.
    :param values: text → the value that it stands for.
    """

    def __init__(self, *names: str, **values: object) -> None:
        self.values: Mapping[str, object] = {**{name: name for name in names}, **values}

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        texts = core_schema.literal_schema(list(self.values))
        return core_schema.no_info_after_validator_function(self.values.__getitem__, texts)


def _drop_nulls(value: object) -> object:
    return {name: entry for name, entry in value.items() if entry is not None} if isinstance(value, Mapping) else value


Named = Annotated[Mapping[K, T], BeforeValidator(_drop_nulls)]
"""A mapping of entries by name in the settings. A null removes the entry of a settings file of lower priority."""
NO_DEFAULT = object()
"""Annotation of a key of the settings without a default, although the attribute has one. If settings omit the key,
something else decides, for example the cluster's nodes."""
Many = Annotated[tuple[T, ...], Strict(False)]
"""A list in the settings."""
Vendor = Annotated[str, OneOf("nvidia", "amd", "intel")]

NAME_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
LABEL_VALUE_PATTERN = rf"^({NAME_PATTERN})?$"
DOMAIN_PATTERN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"


class Pattern:
    """Annotation of a text that must match a pattern.

    :param pattern: the regular expression.
    :param rule: what the pattern requires, in words for an error message; begins with "must be".
    """

    def __init__(self, pattern: str, *, rule: str) -> None:
        self._expression, self._rule = re.compile(pattern), rule

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": self._expression.pattern}

    def _check(self, text: str) -> str:
        if not self._expression.fullmatch(text):
            raise PydanticCustomError("pattern", self._rule)
        return text


ObjectName = Annotated[
    str,
    Pattern(
        rf"^{DOMAIN_PATTERN}$",
        rule="must be the name of an object in Kubernetes: lower-case letters, digits, - and ., such as my-name",
    ),
]
"""Name of an object of Kubernetes; most kinds have this rule."""

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


def _parse_one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


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
RunTime = Annotated[int, BeforeValidator(_parse_run_time), WithJsonSchema(RUN_TIME_SCHEMA)]
"""A duration, converted to seconds. The settings contain text such as ``30m``, ``8h``, ``2d`` or ``2h30m``."""
Version = Annotated[
    str,
    BeforeValidator(_require_quoted_version),
    Pattern(VERSION_PATTERN, rule='must be a version in quotes with two numbers, such as "12.8"'),
    WithJsonSchema({"type": "string", "pattern": VERSION_PATTERN}),
]
UnitFraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
# Keep `max_length` before the validator: in the other order, pydantic's message says "items", not "characters".
Text = Annotated[str, StringConstraints(max_length=2000), BeforeValidator(require_quoted_text)]
ShortText = Annotated[str, StringConstraints(max_length=40), BeforeValidator(require_quoted_text)]
"""Text that is short enough for a badge in the form."""
Title = Annotated[str, StringConstraints(min_length=1, max_length=200), BeforeValidator(require_quoted_text)]
Slug = Annotated[str, BeforeValidator(require_quoted_text)]
GroupName = Annotated[str, StringConstraints(min_length=1, max_length=255), BeforeValidator(require_quoted_text)]
"""Name of a JupyterHub group; comparisons ignore case."""
UserName = Annotated[str, StringConstraints(min_length=1, max_length=255), BeforeValidator(require_quoted_text)]
LabelKey = Annotated[
    str,
    Pattern(
        rf"^({DOMAIN_PATTERN}/)?{NAME_PATTERN}$",
        rule="must be the key of a label, such as pool or nvidia.com/gpu.product",
    ),
]
LabelValue = Annotated[
    str,
    BeforeValidator(require_quoted_text),
    Pattern(
        LABEL_VALUE_PATTERN,
        rule="must be the value of a label or taint: at most 63 letters, digits, -, _ and ., such as Tesla-T4",
    ),
    WithJsonSchema({"type": "string", "pattern": LABEL_VALUE_PATTERN}),
]

_VALUE = {"type": "string", "pattern": LABEL_VALUE_PATTERN}
LabelValues = Annotated[
    Many[LabelValue],
    BeforeValidator(_parse_one_or_many),
    WithJsonSchema({"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]}),
]
"""Allowed values of a node label; an empty list means that the node must not have the label."""
EnvironmentName = Annotated[
    str,
    Pattern(
        r"^[A-Za-z_][A-Za-z0-9_]*$",
        rule="must be the name of an environment variable: letters, digits and _, such as NCCL_DEBUG",
    ),
]
Resource = Annotated[
    str, Pattern(rf"^{DOMAIN_PATTERN}/{NAME_PATTERN}$", rule="must be VENDOR/RESOURCE, such as nvidia.com/gpu")
]
ImageText = Annotated[
    str,
    StringConstraints(max_length=1000),
    Pattern(
        r"^[^\s{}]+$",
        rule="must be an image without spaces and braces, such as quay.io/jupyter/base-notebook:2026-10-01",
    ),
]


def setting(description: str, **limits: Any) -> FieldInfo:
    """Return the annotation that makes a field of a :class:`FromSettings` a key of the settings.

    :param description: what the key means, for the reference and the JSON Schema.
    :param limits: bounds of the value, such as ``ge``, and ``alias`` if the key has another name than the field.
    """
    info: FieldInfo = Field(description=description, **limits)
    return info


class FromSettings:
    """Base class of frozen dataclasses that pydantic creates from mappings in the settings.

    A field is a key of the settings if its annotation contains :func:`setting`. Only code sets the other fields. A
    dataclass may have a field ``given``, which gets the keys that the settings contain.

    Pydantic validates only settings. Calling such a class, and ``dataclasses.replace``, validates nothing.
    """

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        own: Any = handler.resolve_ref_schema(schema)
        own["strict"] = False  # Pydantic would otherwise accept no mapping. The fields stay strict.
        keys = list_keys(cls)
        for attribute in own["schema"]["fields"]:
            attribute["init"] = attribute["name"] in keys
        own["schema"] = core_schema.no_info_wrap_validator_function(partial(_parse_keys, model=cls), own["schema"])
        return schema

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        written = handler(schema)
        own = handler.resolve_ref_schema(written)
        keys = {info.alias or name: info for name, info in list_keys(cls).items()}
        own["description"] = cleandoc(cls.__doc__ or "").partition("\n\n:param")[0]
        own["properties"] = {key: value for key, value in own["properties"].items() if key in keys}
        for key, value in own["properties"].items():
            if NO_DEFAULT in keys[key].metadata or value.get("default") in ("", []):
                value.pop("default", None)
        return written


def _parse_keys(value: Any, parse: Callable[[object], Any], *, model: type) -> Any:
    """Return the attributes that pydantic parses from a mapping, and ``given``.

    A null at a key of the class means "not set". At an unknown key it stays, so that pydantic rejects the key.
    """
    if isinstance(value, Mapping):
        known = {info.alias or name for name, info in list_keys(model).items()}
        value = {key: entry for key, entry in value.items() if entry is not None or key not in known}
    attributes, init_only = parse(value)
    return {**attributes, **({"given": frozenset(value)} if "given" in attributes else {})}, init_only


def list_keys(model: type) -> Mapping[str, FieldInfo]:
    """Return attribute → pydantic's description of the key of the settings that sets it.

    The key is the description's ``alias``, or else the attribute's name.

    :param model: a subclass of :class:`FromSettings`.
    """
    return _describe_fields(cast("Any", model))


@cache
def _describe_fields(model: Any) -> Mapping[str, FieldInfo]:
    hints = get_type_hints(model, include_extras=True)
    infos = {own.name: FieldInfo.from_annotated_attribute(hints[own.name], own) for own in fields(model)}
    return {name: info for name, info in infos.items() if info.description is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(FromSettings):
    """Base class of entries in the settings, such as an image in ``images``.

    :param slug: key of the entry in settings and user options.
    :param given: keys that the settings contain.
    """

    slug: str = ""
    order: Annotated[int | None, setting("Sorts entries, smallest first; those without one come after.")] = field(
        default=None, compare=False
    )
    enabled: Annotated[bool, setting("False disables the entry without removing it.")] = True
    display_name: Annotated[Title, setting("Name in the form. Omitted: the slug, or the model.")] = ""
    description: Annotated[Text, setting("A sentence below the name.")] = ""
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def complete(self, slug: str) -> Self:
        """Return the entry with its slug, and with what the slug and other keys imply.

        :param slug: key of the entry in the settings.
        """
        return replace(self, slug=slug, display_name=self.display_name or slug)


EntryT = TypeVar("EntryT", bound=Entry)


def select_enabled(entries: Mapping[str, EntryT]) -> dict[str, EntryT]:
    """Return the enabled entries of a section of the settings."""
    return {slug: entry for slug, entry in entries.items() if entry.enabled}


def _complete_and_sort(entries: Mapping[str, EntryT]) -> dict[str, EntryT]:
    ordered = sorted(entries.items(), key=lambda item: (item[1].order is None, item[1].order or 0))
    return {slug: entry.complete(slug) for slug, entry in ordered}


Entries = Annotated[Named[str, EntryT], AfterValidator(_complete_and_sort)]
"""A section of the settings with entries by slug, sorted by ``order``; those without ``order`` come last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedEntry(Entry):
    """Base class of entries that only some users may choose.

    If ``allowed_groups`` and ``allowed_users`` are both omitted, every user may choose the entry.
    """

    allowed_groups: Annotated[
        Many[GroupName] | None,
        setting("Groups whose members may choose it. If allowed_users is omitted, too: every user.", min_length=1),
    ] = None
    allowed_users: Annotated[
        Many[UserName] | None,
        setting("Names of users who may choose it, in addition to those of allowed_groups.", min_length=1),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverridingEntry(RestrictedEntry):
    """Base class of entries that set traits of KubeSpawner.

    :param overrides: values of KubeSpawner's traits for servers with the entry.
    """

    overrides: Annotated[
        Mapping[str, Any],
        setting(
            "Traits of KubeSpawner for servers with it, as in a profile: mappings are merged, other values"
            " replace the hub's own.",
            alias="kubespawner_override",
        ),
    ] = field(default_factory=dict, hash=False)
