"""The JSON Schema of ``user_options``, from the declarations of the form's fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from gpuspawner.core.request.field_definitions import CPU, FIELDS
from gpuspawner.core.request.fields import MAX_TEXT_LENGTH, Field, FieldKind
from gpuspawner.core.request.selection import OPTION_FIELDS, OPTIONS_VERSION

EXAMPLES: tuple[Mapping[str, object], ...] = (
    {"image": "pytorch", "cpu": 4, "memory": "16G", "gpu": "a100-80gb", "gpu_count": 1},
    {"gpu": None, "cpu": "500m", "memory": "2G", "run_time": "2h30m", "shared_memory": "1G", "priority": "low"},
    {"custom_image": "quay.io/jupyter/scipy-notebook:2026-10-01"},
    {"preset": "training", "gpu_count": 2},
    {},
)

_LARGEST_TEXT = 64
"""Largest number of characters of an amount or a duration."""
_NUMBER = r"(\d+\.?\d*|\.\d+)"
_CPU_TEXT = rf"^\s*{_NUMBER}m?\s*$"
_MEMORY_TEXT = rf"^\s*{_NUMBER} ?(([KMGTkgt]|m(?=[iIbB]))[iI]?[bB]?|[bB])\s*$"
_D, _H, _M = "[dD]([aA][yY][sS]?)?", "[hH]([oO][uU][rR][sS]?)?", "[mM]([iI][nN]([uU][tT][eE][sS]?)?)?"
_DURATION_TEXT = rf"^\s*(?=[\d.])({_NUMBER} ?{_D})? ?({_NUMBER} ?{_H})? ?({_NUMBER} ?{_M})?\s*$"

_DESCRIPTIONS = {
    "v": "Version of the options. Omitted: the current one.",
    "preset": "Slug of a preset. Other fields replace its values.",
    "image": "Slug of an image. Omitted: the preset's, else the first one.",
    "custom_image": "Reference of an image, in place of `image`, if the settings allow `custom_images`.",
    "cpu": "CPU limit: a number of CPUs, or a text such as `500m`.",
    "memory": "Memory limit: a text with a unit (`16G`, powers of 1024), or a whole number of bytes.",
    "gpu": "Slug of a GPU type. `null` or an empty text: no GPU, even if the preset has one.",
    "gpu_count": "Number of GPUs. Omitted with a GPU type: 1.",
    "run_time": "How long the server runs at most, in whole minutes: `30m`, `8h`, `2h30m`, `2d`.",
    "shared_memory": "Size of /dev/shm, at most the memory. Omitted: the GPU type decides.",
    "priority": "Slug of a priority. Omitted: the first one.",
    "profile": "A summary that the hub writes for admins. Without a `profile_list`, or beside `v`, the hub ignores it.",
}


def schema() -> dict[str, Any]:
    """Return the schema.

    It holds for every site. A site's own offer (slugs, bounds, steps) is not in it.
    """
    fields: dict[str, Any] = {
        "v": {"const": OPTIONS_VERSION},
        "preset": _text(MAX_TEXT_LENGTH),
        **{field.name: _KINDS[field.kind](field) for field in FIELDS},
        "profile": {},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "user_options of gpuspawner",
        "description": "What a user chooses for a server. Omitted fields have the preset's value, or their default.",
        "type": ["object", "null"],
        "properties": {name: {"description": _DESCRIPTIONS[name], **fields[name]} for name in OPTION_FIELDS},
        "additionalProperties": False,
        "allOf": [_EITHER_IMAGE, _NO_COUNT_WITHOUT_GPU],
        "examples": list(EXAMPLES),
    }


def schema_text() -> str:
    """Return the schema as a JSON document."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _text(longest: int) -> dict[str, Any]:
    return {"type": ["string", "null"], "maxLength": longest}


def _amount(field: Field) -> dict[str, Any]:
    is_cpu = field.name == CPU.name
    number: dict[str, Any] = {"type": "number" if is_cpu else "integer", "minimum": 0, "exclusiveMaximum": 2**63}
    text = {"type": "string", "maxLength": _LARGEST_TEXT, "pattern": _CPU_TEXT if is_cpu else _MEMORY_TEXT}
    empty = [{"const": ""}] if field.may_be_empty else []
    return {"anyOf": [number, text, *empty, {"type": "null"}]}


def _duration(_: Field) -> dict[str, Any]:
    return {"type": ["string", "null"], "maxLength": _LARGEST_TEXT, "pattern": _DURATION_TEXT}


def _count(_: Field) -> dict[str, Any]:
    return {"type": ["integer", "null"], "minimum": 0}


_KINDS: Mapping[FieldKind, Callable[[Field], dict[str, Any]]] = {
    FieldKind.CHOICE: lambda field: _text(field.max_length),
    FieldKind.REFERENCE: lambda field: _text(field.max_length),
    FieldKind.AMOUNT: _amount,
    FieldKind.DURATION: _duration,
    FieldKind.COUNT: _count,
}
_GIVEN = {"type": "string", "minLength": 1}
_EITHER_IMAGE = {
    "description": "Only one of image and custom_image.",
    "not": {
        "type": "object",
        "required": ["image", "custom_image"],
        "properties": {"image": _GIVEN, "custom_image": _GIVEN},
    },
}
_NO_COUNT_WITHOUT_GPU = {
    "description": "No GPU, so no number of GPUs.",
    "if": {"required": ["gpu"], "properties": {"gpu": {"enum": [None, ""]}}},
    "then": {"properties": {"gpu_count": {"enum": [None, 0]}}},
}
