"""How amounts are written in settings, as JSON Schema says it: for editors and Helm, which cannot ask the parsers.

Helm's regular expressions are Go's, which cannot look ahead.
"""

from __future__ import annotations

from typing import Any

UNIT_KEY = "x-unit"
"""Key of a schema that tells in what unit the model has the default; :mod:`gpuspawner.settings.schema` takes it out."""

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
    """Return what a limit may be: an amount, or no limit."""
    return {"anyOf": [schema, {"const": "unlimited"}]}
