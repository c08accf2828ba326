from __future__ import annotations

from gpuspawner.cli.common.output import Paint
from gpuspawner.cli.doctor.facts import Kind
from gpuspawner.cli.doctor.finding import Finding, Severity
from gpuspawner.cli.doctor.report import as_json, lines, summary

PLAIN = Paint(is_on=False)


def finding(severity: Severity, **more: str) -> Finding:
    return Finding(severity=severity, **{"code": "c", "what": "What.", "why": "Why.", "fix": "one\ntwo", **more})


def test_a_finding_stands_with_its_reason_and_its_fix():
    assert list(lines([finding(Severity.FAULT)], PLAIN, unread={})) == [
        "FAULT  c",
        "  What.",
        "  Why.",
        "    one",
        "    two",
        "",
        "1 fault",
    ]


def test_nothing_is_said_in_a_line():
    assert list(lines([], PLAIN, unread={})) == ["Nothing to complain of."]


def test_what_could_not_be_read_is_not_said_to_be_well():
    unread = {Kind.DEPLOYMENTS: "HTTP status 403"}
    assert list(lines([], PLAIN, unread=unread)) == ["Nothing to complain of in what could be read."]
    assert as_json([], unread) == {
        "findings": [],
        "unread": [{"kind": "deployments", "reason": "HTTP status 403"}],
    }


def test_what_a_cluster_says_controls_no_terminal():
    assert "  a?[31mb" in list(lines([finding(Severity.NOTE, what="a\x1b[31mb")], PLAIN, unread={}))


def test_findings_are_counted_by_severity():
    found = [finding(Severity.WARNING), finding(Severity.FAULT), finding(Severity.WARNING)]
    assert summary(found) == "1 fault, 2 warnings"
    assert [each["severity"] for each in as_json(found, {})["findings"]] == ["warning", "fault", "warning"]  # type: ignore[attr-defined]
