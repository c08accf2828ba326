"""Values of zero-to-jupyterhub below one key, and more of them below another one that its chart never gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuspawner.cli.findings import Finding, Severity, dotted, type_name
from gpuspawner.cli.values import CONFIG, NAME, Values
from gpuspawner.core.quoting import name_of

_SECTIONS = ("hub", "singleuser")


def other_roots(values: Values) -> Iterator[Finding]:
    """Yield the keys at the top that hold values of the chart beside those that are looked at, or are to hold them.

    A chart around it may have the hub twice, under two names: that is legal, and only the first is looked at.
    """
    root = values.root[0] if values.root else ""
    for key, value in values.merged.items():
        if key in (root, "custom") or (not root and key in _SECTIONS):
            continue
        if not isinstance(value, Mapping):
            yield from _no_values(values, key)
        elif key in _SECTIONS:
            message = f"is read by nobody here: the chart's values are below {name_of(root)}, and so must this be"
            yield _finding(values, key, severity=Severity.ERROR, message=message)
        elif _holds_the_chart(value):
            is_misspelt = key.lower() == (root or NAME).lower()
            known = f"those below {name_of(root)}" if root else "those at the top of the files"
            message = f"holds values of the chart as well, which are not looked at: {known} are. Is one misplaced?"
            severity = Severity.ERROR if is_misspelt else Severity.WARNING
            yield _finding(values, key, severity=severity, message=message)


def _no_values(values: Values, key: str) -> Iterator[Finding]:
    """Yield that a key of a chart around it holds nothing that the chart could get."""
    before = _holds_the_chart(values.lost.get(key, {}))
    if not before and key.lower() != NAME:
        return
    value = values.merged[key]
    message = f"must be a mapping, not {type_name(value)}: a chart around this one keeps its values below it"
    if value is None:
        message = "is null: the chart gets no values from below it"
    if before:
        message += ". What files before say there is taken away"
    code, severity = ("idle_null", Severity.WARNING) if value is None else ("wrong_type", Severity.ERROR)
    yield _finding(values, key, severity=severity, message=message, code=code)


def _holds_the_chart(value: Mapping[str, Any]) -> bool:
    hub = value.get(CONFIG[0])
    return (isinstance(hub, Mapping) and isinstance(hub.get(CONFIG[1]), Mapping)) or isinstance(
        value.get("singleuser"), Mapping
    )


def _finding(values: Values, key: str, *, severity: Severity, message: str, code: str = "misplaced") -> Finding:
    place = values.where((key,), of_key=True)
    return Finding(severity=severity, code=code, path=dotted((key,)), message=message, place=place)
