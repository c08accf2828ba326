"""Values of zero-to-jupyterhub below one key, and more of them below another one that its chart never gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuspawner.cli.common.findings import Finding, Severity, describe_type, format_path
from gpuspawner.cli.values.values import CHART_NAME, HUB_CONFIG_PATH, HelmValues

_CHART_SECTIONS = ("hub", "singleuser")


def find_misplaced_values(values: HelmValues) -> Iterator[Finding]:
    """Yield the keys that hold values of the chart beside those that are looked at, or are to hold them.

    A chart around it may have the hub twice, under two names: that is legal, and only the first is looked at.
    """
    for depth in range(max(len(values.root), 1)):
        yield from _find_sibling_roots(values, values.root[:depth], root="".join(values.root[depth : depth + 1]))


def _find_sibling_roots(values: HelmValues, above: tuple[str, ...], *, root: str) -> Iterator[Finding]:
    """Yield those of one level.

    :param above: the keys of parent charts over it.
    :param root: the key that is looked at, empty where the chart's values are not below one.
    """
    for key, value in values.get_section(above).items():
        path = (*above, key)
        if key in (root, "custom") or (not root and key in _CHART_SECTIONS):
            continue
        if not isinstance(value, Mapping):
            yield from _check_root_value(values, path)
        elif key in _CHART_SECTIONS:
            message = (
                f"is read by nobody here: the chart's values are below {format_path(values.root)}, and so must this be"
            )
            yield _make_finding(values, path, severity=Severity.ERROR, message=message)
        elif _holds_the_chart(value):
            is_misspelt = key.lower() == (root or CHART_NAME).lower()
            known = f"those below {format_path(values.root)}" if root else "those at the top of the files"
            message = f"holds values of the chart as well, which are not looked at: {known} are. Is one misplaced?"
            severity = Severity.ERROR if is_misspelt else Severity.WARNING
            yield _make_finding(values, path, severity=severity, message=message)


def _check_root_value(values: HelmValues, path: tuple[str, ...]) -> Iterator[Finding]:
    """Yield that a key of a chart around it holds nothing that the chart could get."""
    before = len(path) == 1 and _holds_the_chart(values.lost.get(path[0], {}))
    if not before and path[-1].lower() != CHART_NAME:
        return
    value = values.get_section(path[:-1])[path[-1]]
    message = f"must be a mapping, not {describe_type(value)}: a chart around this one keeps its values below it"
    if value is None:
        message = "is null: the chart gets no values from below it"
    if before:
        message += ". What files before say there is taken away"
    code, severity = ("idle_null", Severity.WARNING) if value is None else ("wrong_type", Severity.ERROR)
    yield _make_finding(values, path, severity=severity, message=message, code=code)


def _holds_the_chart(value: Mapping[str, Any]) -> bool:
    hub = value.get(HUB_CONFIG_PATH[0])
    return (isinstance(hub, Mapping) and isinstance(hub.get(HUB_CONFIG_PATH[1]), Mapping)) or isinstance(
        value.get("singleuser"), Mapping
    )


def _make_finding(
    values: HelmValues, path: tuple[str, ...], *, severity: Severity, message: str, code: str = "misplaced"
) -> Finding:
    place = values.locate(path, of_key=True)
    return Finding(severity=severity, code=code, path=format_path(path), message=message, place=place)
