"""Values of zero-to-jupyterhub below one key, and more of them below another one that its chart never gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuspawner.cli.common.findings import Finding, Severity, dotted, type_name
from gpuspawner.cli.values.values import CONFIG, NAME, Values

_SECTIONS = ("hub", "singleuser")


def other_roots(values: Values) -> Iterator[Finding]:
    """Yield the keys that hold values of the chart beside those that are looked at, or are to hold them.

    A chart around it may have the hub twice, under two names: that is legal, and only the first is looked at.
    """
    for depth in range(max(len(values.root), 1)):
        yield from _beside(values, values.root[:depth], root="".join(values.root[depth : depth + 1]))


def _beside(values: Values, above: tuple[str, ...], *, root: str) -> Iterator[Finding]:
    """Yield those of one level.

    :param above: the keys of parent charts over it.
    :param root: the key that is looked at, empty where the chart's values are not below one.
    """
    for key, value in values.above(above).items():
        path = (*above, key)
        if key in (root, "custom") or (not root and key in _SECTIONS):
            continue
        if not isinstance(value, Mapping):
            yield from _no_values(values, path)
        elif key in _SECTIONS:
            message = f"is read by nobody here: the chart's values are below {dotted(values.root)}, and so must this be"
            yield _finding(values, path, severity=Severity.ERROR, message=message)
        elif _holds_the_chart(value):
            is_misspelt = key.lower() == (root or NAME).lower()
            known = f"those below {dotted(values.root)}" if root else "those at the top of the files"
            message = f"holds values of the chart as well, which are not looked at: {known} are. Is one misplaced?"
            severity = Severity.ERROR if is_misspelt else Severity.WARNING
            yield _finding(values, path, severity=severity, message=message)


def _no_values(values: Values, path: tuple[str, ...]) -> Iterator[Finding]:
    """Yield that a key of a chart around it holds nothing that the chart could get."""
    before = len(path) == 1 and _holds_the_chart(values.lost.get(path[0], {}))
    if not before and path[-1].lower() != NAME:
        return
    value = values.above(path[:-1])[path[-1]]
    message = f"must be a mapping, not {type_name(value)}: a chart around this one keeps its values below it"
    if value is None:
        message = "is null: the chart gets no values from below it"
    if before:
        message += ". What files before say there is taken away"
    code, severity = ("idle_null", Severity.WARNING) if value is None else ("wrong_type", Severity.ERROR)
    yield _finding(values, path, severity=severity, message=message, code=code)


def _holds_the_chart(value: Mapping[str, Any]) -> bool:
    hub = value.get(CONFIG[0])
    return (isinstance(hub, Mapping) and isinstance(hub.get(CONFIG[1]), Mapping)) or isinstance(
        value.get("singleuser"), Mapping
    )


def _finding(
    values: Values, path: tuple[str, ...], *, severity: Severity, message: str, code: str = "misplaced"
) -> Finding:
    place = values.where(path, of_key=True)
    return Finding(severity=severity, code=code, path=dotted(path), message=message, place=place)
