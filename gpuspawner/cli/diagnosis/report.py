"""Findings as people and programs read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuspawner.cli.diagnosis.finding import Finding, Severity
from gpuspawner.cli.output import Paint, printable

HEALTHY = "Nothing to complain of."


def lines(findings: Sequence[Finding], paint: Paint) -> Iterator[str]:
    """Yield the lines for people: each finding with its reason and what to do."""
    if not findings:
        yield paint.good(HEALTHY)
        return
    paints = {Severity.FAULT: paint.bad, Severity.WARNING: paint.doubtful, Severity.NOTE: paint.faint}
    for finding in findings:
        yield f"{paints[finding.severity](finding.severity.upper())}  {paint.strong(finding.code)}"
        yield f"  {printable(finding.what)}"
        yield f"  {printable(finding.why)}"
        for line in finding.fix.splitlines():
            yield f"    {printable(line)}"
        yield ""
    yield summary(findings)


def summary(findings: Sequence[Finding]) -> str:
    """Return how many findings there are of which severity."""
    counted = Counter(finding.severity for finding in findings)
    return ", ".join(
        f"{number} {severity.value}{'' if number == 1 else 's'}"
        for severity in Severity
        if (number := counted[severity])
    )


def as_json(findings: Sequence[Finding]) -> dict[str, object]:
    """Return all findings as JSON has them."""
    return {"findings": [finding.as_json() for finding in findings]}
