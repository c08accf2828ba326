from __future__ import annotations

from gpuspawner.cli.common.output import Paint
from gpuspawner.cli.doctor.command import diagnose, format_diagnoses, serialize_diagnoses, summarize_diagnoses
from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity
from gpuspawner.cli.doctor.facts import ObjectKind
from tests.unit.cli.doctor.cases import facts, node

PLAIN = Paint(is_on=False)


def finding(severity: DiagnosisSeverity, **more: str) -> Diagnosis:
    return Diagnosis(severity=severity, **{"code": "c", "what": "What.", "why": "Why.", "fix": "one\ntwo", **more})


def test_a_finding_stands_with_its_reason_and_its_fix():
    assert list(format_diagnoses([finding(DiagnosisSeverity.FAULT)], PLAIN, unread={})) == [
        "FAULT  c",
        "  What.",
        "  Why.",
        "    one",
        "    two",
        "",
        "1 fault",
    ]


def test_nothing_is_said_in_a_line():
    assert list(format_diagnoses([], PLAIN, unread={})) == ["No problems found."]


def test_what_could_not_be_read_is_not_said_to_be_well():
    unread = {ObjectKind.DEPLOYMENTS: "HTTP status 403"}
    assert list(format_diagnoses([], PLAIN, unread=unread)) == ["No problems found in what could be read."]
    assert serialize_diagnoses([], unread) == {
        "findings": [],
        "unread": [{"kind": "deployments", "reason": "HTTP status 403"}],
    }


def test_what_a_cluster_says_controls_no_terminal():
    assert "  a?[31mb" in list(format_diagnoses([finding(DiagnosisSeverity.NOTE, what="a\x1b[31mb")], PLAIN, unread={}))


def test_findings_are_counted_by_severity():
    found = [finding(DiagnosisSeverity.WARNING), finding(DiagnosisSeverity.FAULT), finding(DiagnosisSeverity.WARNING)]
    assert summarize_diagnoses(found) == "1 fault, 2 warnings"
    assert [each["severity"] for each in serialize_diagnoses(found, {})["findings"]] == ["warning", "fault", "warning"]  # type: ignore[attr-defined]


def test_nothing_is_found_where_all_is_well():
    assert diagnose(facts()) == ()


def test_the_worst_is_reported_first():
    found = diagnose(facts(node("a", unschedulable=True), node("b", gpus=0)))
    assert [each.code for each in found] == ["device-plugin-missing", "node-cordoned"]
