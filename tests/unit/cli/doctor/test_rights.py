from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpuspawner._resources import data_dir
from gpuspawner.cli.cluster.grants import EVERYTHING, Account, Right, grants
from gpuspawner.cli.doctor.facts import Facts, Kind
from gpuspawner.cli.doctor.rights import LOSSES, account_unknown, dangerous_rights, missing_rights
from gpuspawner.cli.values.wishes import Wishes
from tests.unit.cli.doctor.cases import codes, facts, gpu_type, named

HUB = Account("jhub", "hub")
NAME = ("jhub/hub",)
GRANTS = grants(yaml.safe_load_all((data_dir("helm-values") / "rbac.yaml").read_text()), account=HUB, namespace="jhub")


def hub(*, lost: str = "", allowed: dict[Right, bool] | None = None, **more: Any) -> Facts:
    answers = {right: grant.part != lost for grant in GRANTS for right in grant.rights}
    return facts(account=HUB, grants=GRANTS, allowed=answers | (allowed or {}), **more)


def test_it_is_said_of_each_shipped_part_what_is_lost_without_it():
    assert {grant.part for grant in GRANTS} == LOSSES.keys()


def test_nothing_is_missing_of_a_hub_with_all_of_it():
    assert codes(missing_rights, hub()) == []


@pytest.mark.parametrize(
    ("lost", "more", "expected"),
    [
        ("hub", {}, "fault"),
        ("nodes", {}, "fault"),
        ("nodes", {"settings": {"gpus": {"t4": gpu_type()}}}, "warning"),
        ("pods", {}, "warning"),
        ("volumes", {}, "warning"),
        ("nodepools", {}, "warning"),
        ("nodepools", {"unserved": frozenset({Kind.NODE_POOLS})}, None),
        ("devices", {}, "note"),
        ("devices", {"read": {Kind.DEVICE_CLASSES: [named("gpu.nvidia.com")]}}, "warning"),
        ("quotas", {}, "note"),
        ("quotas", {"read": {Kind.QUOTAS: [named("q")]}}, "warning"),
        ("queues", {}, None),
        ("queues", {"settings": {"queue": {"local_queue": "q"}}}, "warning"),
    ],
)
def test_how_bad_it_is_to_miss_a_part_depends_on_what_there_is(lost: str, more: dict[str, Any], expected: str | None):
    found = [] if expected is None else [(expected, f"rights-{lost}", NAME)]
    assert codes(missing_rights, hub(lost=lost, **more)) == found


@pytest.mark.parametrize(
    ("resource", "wishes", "told"),
    [
        ("events", None, "warning"),
        ("events", Wishes(), "warning"),
        ("events", Wishes(reads_events=False), None),
        ("persistentvolumeclaims", None, "fault"),
        ("persistentvolumeclaims", Wishes(wants_claims=True), "fault"),
        ("persistentvolumeclaims", Wishes(), None),
    ],
)
def test_what_the_hub_makes_no_use_of_is_not_missing(resource: str, wishes: Wishes | None, told: str | None):
    lost = {right: False for grant in GRANTS for right in grant.rights if right.resource == resource}
    expected = [(told, "rights-hub", NAME)] if told else []
    assert codes(missing_rights, hub(allowed=lost, wishes=wishes)) == expected


def test_the_verbs_that_are_missing_are_named():
    lost = {Right(verb, "events", namespace="jhub"): False for verb in ("list", "watch")}
    (found,) = missing_rights(hub(allowed=lost))
    assert found.what == "The hub (ServiceAccount jhub/hub) may not list, watch events."
    assert found.why == "People may not be told why a server waits."


def test_of_several_pods_the_one_that_runs_is_named():
    pods = [named("old", status={"phase": "Failed"}), named("new", status={"phase": "Running"})]
    (found,) = missing_rights(hub(lost="pods", read={Kind.HUB_PODS: pods}))
    assert found.what.startswith("The hub (ServiceAccount jhub/hub, pod new) may not ")


def test_the_fix_gives_the_part_to_the_account():
    (found,) = missing_rights(hub(lost="pods"))
    manifests = list(yaml.safe_load_all(found.fix.partition("<<'EOF'\n")[2].removesuffix("EOF")))
    assert [each["kind"] for each in manifests] == ["ClusterRole", "ClusterRoleBinding"]
    assert manifests[1]["subjects"] == [{"kind": "ServiceAccount", "name": "hub", "namespace": "jhub"}]


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        ([Right("get", "secrets")], "may get secrets in all namespaces, which"),
        (
            [Right("create", "pods/exec"), Right("create", "pods/exec", "", "jhub")],
            "may create pods/exec in all namespaces, which",
        ),
        ([Right("create", "pods/exec", "", "jhub")], "may create pods/exec, which"),
        ([EVERYTHING, Right("get", "secrets")], "may do everything, which"),
    ],
)
def test_what_a_hub_has_no_use_for_is_a_warning(allowed: list[Right], told: str):
    (found,) = dangerous_rights(hub(allowed=dict.fromkeys(allowed, True)))
    assert (found.severity.value, found.code, told in found.what) == ("warning", "rights-dangerous", True), found.what


def test_secrets_of_the_own_namespace_are_what_the_chart_gives():
    assert codes(dangerous_rights, hub(allowed={Right("get", "secrets", "", "jhub"): True})) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (facts(account=HUB, read={Kind.ACCOUNTS: []}), [("fault", "hub-account-missing", NAME)]),
        (facts(account=HUB, grants=GRANTS), [("note", "rights-unknown", NAME)]),
        (hub(), []),
        (facts(), []),
    ],
)
def test_an_account_that_is_not_there_or_not_known_is_told(found: Facts, expected: list[Any]):
    assert codes(account_unknown, found) == expected


@pytest.mark.parametrize("rule", [missing_rights, dangerous_rights])
def test_nothing_is_said_of_rights_where_there_is_no_hub(rule: Any):
    assert codes(rule, facts()) == []
