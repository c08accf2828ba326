"""Values of zero-to-jupyterhub below one key, and more of them below another one that its chart never gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuspawner.cli.findings import Finding, Severity, dotted
from gpuspawner.cli.values import CONFIG, Values
from gpuspawner.core.quoting import name_of

_SECTIONS = ("hub", "singleuser")


def other_roots(values: Values) -> Iterator[Finding]:
    """Yield the keys at the top that hold values of the chart beside those that are looked at.

    A chart around it may have the hub twice, under two names: that is legal, and only the first is looked at.
    """
    root = values.root[0] if values.root else ""
    for key, value in values.merged.items():
        if key in (root, "custom") or (not root and key in _SECTIONS) or not isinstance(value, Mapping):
            continue
        if key in _SECTIONS:
            message = f"is read by nobody here: the chart's values are below {name_of(root)}, and so must this be"
            yield _finding(values, key, severity=Severity.ERROR, message=message)
        elif _holds_the_chart(value):
            is_misspelt = key.lower() == (root or "jupyterhub").lower()
            known = f"those below {name_of(root)}" if root else "those at the top of the files"
            message = f"holds values of the chart as well, which are not looked at: {known} are. Is one misplaced?"
            severity = Severity.ERROR if is_misspelt else Severity.WARNING
            yield _finding(values, key, severity=severity, message=message)


def _holds_the_chart(value: Mapping[str, Any]) -> bool:
    hub = value.get(CONFIG[0])
    return (isinstance(hub, Mapping) and isinstance(hub.get(CONFIG[1]), Mapping)) or isinstance(
        value.get("singleuser"), Mapping
    )


def _finding(values: Values, key: str, *, severity: Severity, message: str) -> Finding:
    place = values.where((key,), of_key=True)
    return Finding(severity=severity, code="misplaced", path=dotted((key,)), message=message, place=place)
