"""Findings as people and programs read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpuspawner.cli.common.output import Paint, printable
from gpuspawner.cli.doctor.facts import Kind
from gpuspawner.cli.doctor.finding import Finding, Severity

HEALTHY = "Nothing to complain of."
HEALTHY_AS_FAR_AS_READ = "Nothing to complain of in what could be read."


def lines(findings: Sequence[Finding], paint: Paint, *, unread: Mapping[Kind, str]) -> Iterator[str]:
    """Yield the lines for people: each finding with its reason and what to do.

    :param unread: what could not be read, with why.
    """
    if not findings:
        yield paint.doubtful(HEALTHY_AS_FAR_AS_READ) if unread else paint.good(HEALTHY)
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


def as_json(findings: Sequence[Finding], unread: Mapping[Kind, str]) -> dict[str, object]:
    """Return all findings, and what could not be read, as JSON has them."""
    return {
        "findings": [finding.as_json() for finding in findings],
        "unread": [{"kind": kind.value, "reason": reason} for kind, reason in unread.items()],
    }
