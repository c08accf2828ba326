from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpuspawner._resources import data_dir
from gpuspawner.cli.cluster.shipped_roles import ALL_PERMISSIONS, Permission, ServiceAccount, build_role_grants
from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind
from gpuspawner.cli.doctor.hub_health import (
    check_dangerous_rights,
    check_hub_account,
    check_missing_rights,
    read_losses,
)
from gpuspawner.cli.values.chart_config import ChartRequirements
from tests.unit.cli.doctor.cases import codes, facts, gpu_type, named

HUB = ServiceAccount("jhub", "hub")
NAME = ("jhub/hub",)
GRANTS = build_role_grants(
    yaml.safe_load_all((data_dir("helm-values") / "rbac.yaml").read_text()), account=HUB, namespace="jhub"
)


def hub(*, lost: str = "", allowed: dict[Permission, bool] | None = None, **more: Any) -> ClusterFacts:
    answers = {right: grant.part != lost for grant in GRANTS for right in grant.rights}
    return facts(account=HUB, grants=GRANTS, allowed=answers | (allowed or {}), **more)


def test_it_is_said_of_each_shipped_part_what_is_lost_without_it():
    assert {grant.part for grant in GRANTS} == read_losses().keys()


@pytest.mark.parametrize(
    ("lost", "more", "expected"),
    [
        ("hub", {}, "fault"),
        ("nodes", {}, "fault"),
        ("nodes", {"settings": {"gpus": {"t4": gpu_type()}}}, "warning"),
        ("pods", {}, "warning"),
        ("volumes", {}, "warning"),
        ("volume-limits", {}, "note"),
        ("nodepools", {}, "warning"),
        ("nodepools", {"unserved": frozenset({ObjectKind.NODE_POOLS})}, None),
        ("autoscaler", {}, None),
        ("autoscaler", {"read": {ObjectKind.AUTOSCALER_STATUS: [named("cluster-autoscaler-status")]}}, "note"),
        ("devices", {}, "note"),
        ("devices", {"read": {ObjectKind.DEVICE_CLASSES: [named("gpu.nvidia.com")]}}, "warning"),
        ("priorities", {}, "note"),
        ("priorities", {"settings": {"priorities": {"low": {"class": "low", "value": -5}}}}, "warning"),
        ("runtime-classes", {}, "note"),
        ("runtime-classes", {"settings": {"gpus": {"t4": gpu_type(runtime_class="nvidia")}}}, "warning"),
        ("quotas", {}, "note"),
        ("quotas", {"read": {ObjectKind.QUOTAS: [named("q")]}}, "warning"),
        ("queues", {}, None),
        ("queues", {"settings": {"queue": {"local_queue": "q"}}}, "warning"),
        ("queue-quotas", {}, None),
        ("queue-quotas", {"settings": {"queue": {"local_queue": "q"}}}, "warning"),
    ],
)
def test_how_bad_it_is_to_miss_a_part_depends_on_what_there_is(lost: str, more: dict[str, Any], expected: str | None):
    found = [] if expected is None else [(expected, f"rights-{lost}", NAME)]
    assert codes(check_missing_rights, hub(lost=lost, **more)) == found


@pytest.mark.parametrize(
    ("resource", "wishes", "told"),
    [
        ("events", None, "warning"),
        ("events", ChartRequirements(), "warning"),
        ("events", ChartRequirements(reads_events=False), None),
        ("persistentvolumeclaims", None, "fault"),
        ("persistentvolumeclaims", ChartRequirements(wants_claims=True), "fault"),
        ("persistentvolumeclaims", ChartRequirements(), None),
    ],
)
def test_what_the_hub_makes_no_use_of_is_not_missing(resource: str, wishes: ChartRequirements | None, told: str | None):
    lost = {right: False for grant in GRANTS for right in grant.rights if right.resource == resource}
    expected = [(told, "rights-hub", NAME)] if told else []
    assert codes(check_missing_rights, hub(allowed=lost, requirements=wishes)) == expected


def test_the_verbs_that_are_missing_are_named():
    lost = {Permission(verb, "events", namespace="jhub"): False for verb in ("list", "watch")}
    (found,) = check_missing_rights(hub(allowed=lost))
    assert found.what == "The hub (ServiceAccount jhub/hub) may not list, watch events."
    assert found.why == "Users may not see why a server waits."


def test_of_several_pods_the_one_that_runs_is_named():
    pods = [named("old", status={"phase": "Failed"}), named("new", status={"phase": "Running"})]
    (found,) = check_missing_rights(hub(lost="pods", read={ObjectKind.HUB_PODS: pods}))
    assert found.what.startswith("The hub (ServiceAccount jhub/hub, pod new) may not ")


def test_the_fix_gives_the_part_to_the_account():
    (found,) = check_missing_rights(hub(lost="pods"))
    manifests = list(yaml.safe_load_all(found.fix.partition("<<'EOF'\n")[2].removesuffix("EOF")))
    assert [(each["kind"], each["metadata"]) for each in manifests] == [
        ("ClusterRole", {"name": "gpuspawner-pods-jhub"}),
        ("ClusterRoleBinding", {"name": "gpuspawner-pods-jhub"}),
    ]
    assert manifests[1]["subjects"] == [{"kind": "ServiceAccount", "name": "hub", "namespace": "jhub"}]


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        ([Permission("get", "secrets")], "may get secrets in all namespaces, which"),
        (
            [Permission("create", "pods/exec"), Permission("create", "pods/exec", "", "jhub")],
            "may create pods/exec in all namespaces, which",
        ),
        ([Permission("create", "pods/exec", "", "jhub")], "may create pods/exec, which"),
        ([ALL_PERMISSIONS, Permission("get", "secrets")], "may do everything, which"),
    ],
)
def test_what_a_hub_has_no_use_for_is_a_warning(allowed: list[Permission], told: str):
    (found,) = check_dangerous_rights(hub(allowed=dict.fromkeys(allowed, True)))
    assert (found.severity.value, found.code, told in found.what) == ("warning", "rights-dangerous", True), found.what


def test_secrets_of_the_own_namespace_are_what_the_chart_gives():
    assert codes(check_dangerous_rights, hub(allowed={Permission("get", "secrets", "", "jhub"): True})) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (facts(account=HUB, read={ObjectKind.ACCOUNTS: []}), [("fault", "hub-account-missing", NAME)]),
        (facts(account=HUB, grants=GRANTS), [("note", "rights-unknown", NAME)]),
        (hub(), []),
        (facts(), []),
    ],
)
def test_an_account_that_is_not_there_or_not_known_is_reported(found: ClusterFacts, expected: list[Any]):
    assert codes(check_hub_account, found) == expected


@pytest.mark.parametrize("rule", [check_missing_rights, check_dangerous_rights])
def test_nothing_is_said_of_rights_where_there_is_no_hub(rule: Any):
    assert codes(rule, facts()) == []
