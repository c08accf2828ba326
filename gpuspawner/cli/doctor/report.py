"""Findings as people and programs read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpuspawner.cli.common.output import Paint, sanitize
from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.finding import Diagnosis, DiagnosisSeverity

NO_DIAGNOSIS = "Nothing to complain of."
NO_DIAGNOSIS_IN_READ_PART = "Nothing to complain of in what could be read."


def format_diagnoses(findings: Sequence[Diagnosis], paint: Paint, *, unread: Mapping[ObjectKind, str]) -> Iterator[str]:
    """Yield the lines for people: each finding with its reason and what to do.

    :param unread: what could not be read, with why.
    """
    if not findings:
        yield paint.style_warning(NO_DIAGNOSIS_IN_READ_PART) if unread else paint.style_success(NO_DIAGNOSIS)
        return
    paints = {
        DiagnosisSeverity.FAULT: paint.style_error,
        DiagnosisSeverity.WARNING: paint.style_warning,
        DiagnosisSeverity.NOTE: paint.style_dim,
    }
    for finding in findings:
        yield f"{paints[finding.severity](finding.severity.upper())}  {paint.style_title(finding.code)}"
        yield f"  {sanitize(finding.what)}"
        yield f"  {sanitize(finding.why)}"
        for line in finding.fix.splitlines():
            yield f"    {sanitize(line)}"
        yield ""
    yield summarize_diagnoses(findings)


def summarize_diagnoses(findings: Sequence[Diagnosis]) -> str:
    """Return how many findings there are of which severity."""
    counted = Counter(finding.severity for finding in findings)
    return ", ".join(
        f"{number} {severity.value}{'' if number == 1 else 's'}"
        for severity in DiagnosisSeverity
        if (number := counted[severity])
    )


def serialize_diagnoses(findings: Sequence[Diagnosis], unread: Mapping[ObjectKind, str]) -> dict[str, object]:
    """Return all findings, and what could not be read, as JSON has them."""
    return {
        "findings": [finding.serialize() for finding in findings],
        "unread": [{"kind": kind.value, "reason": reason} for kind, reason in unread.items()],
    }
