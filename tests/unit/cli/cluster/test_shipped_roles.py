from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from gpuspawner._resources import data_dir
from gpuspawner.cli.cluster.shipped_roles import (
    Permission,
    ServiceAccount,
    build_role_grants,
    describe_permissions,
    list_dangerous_permissions,
)

HUB = ServiceAccount("hubs", "hub")


def shipped() -> dict[str, tuple[Permission, ...]]:
    documents = yaml.safe_load_all((data_dir("helm-values") / "rbac.yaml").read_text())
    return {grant.part: grant.rights for grant in build_role_grants(documents, account=HUB, namespace="jhub")}


def test_the_shipped_roles_are_read_part_by_part():
    found = shipped()
    assert found["nodes"] == (Permission("list", "nodes"), Permission("watch", "nodes"))
    assert Permission("delete", "pods", namespace="jhub") in found["hub"]
    assert found["queues"] == (
        Permission("get", "localqueues/pendingworkloads", "visibility.kueue.x-k8s.io", "jhub"),
        Permission("list", "localqueues", "kueue.x-k8s.io", "jhub"),
        Permission("list", "workloads", "kueue.x-k8s.io", "jhub"),
    )


@pytest.mark.parametrize("has_user_namespaces", [False, True])
def test_manifests_are_the_file_with_the_hubs_namespace_in_each_name(has_user_namespaces: bool):
    text = (data_dir("helm-values") / "rbac.yaml").read_text()
    hub = ServiceAccount("lab", "hub")
    documents = yaml.safe_load_all(text)
    found = build_role_grants(documents, account=hub, namespace="lab", has_user_namespaces=has_user_namespaces)
    # If each user has a namespace, what was in the servers' namespace belongs to the whole cluster.
    cluster = {"lab": None} if has_user_namespaces else {}
    expected = [
        (each["metadata"]["name"], cluster.get(place := each["metadata"].get("namespace"), place), *bound(each))
        for each in yaml.safe_load_all(text.replace("jupyterhub", "lab"))
    ]
    assert [
        (each["metadata"]["name"], each["metadata"].get("namespace"), *bound(each))
        for grant in found
        for each in grant.manifests
    ] == expected


def bound(manifest: Mapping[str, Any]) -> tuple[object, object]:
    return manifest.get("roleRef", {}).get("name"), manifest.get("subjects")


def test_manifests_are_for_the_account_and_the_namespace_of_the_servers():
    role = {"kind": "Role", "metadata": {"name": "gpuspawner-x-jupyterhub", "namespace": "jupyterhub"}, "rules": []}
    reference = {"kind": "Role", "name": "gpuspawner-x-jupyterhub"}
    binding = {**role, "kind": "RoleBinding", "roleRef": reference, "subjects": [1]}
    (grant,) = build_role_grants([role, binding, None], account=HUB, namespace="jhub")
    assert [each["metadata"] for each in grant.manifests] == [{"name": "gpuspawner-x-hubs", "namespace": "jhub"}] * 2
    assert grant.manifests[1]["subjects"] == [{"kind": "ServiceAccount", "name": "hub", "namespace": "hubs"}]


def test_where_users_have_namespaces_of_their_own_all_roles_are_for_the_whole_cluster():
    documents = yaml.safe_load_all((data_dir("helm-values") / "rbac.yaml").read_text())
    found = build_role_grants(documents, account=HUB, namespace="jhub", has_user_namespaces=True)
    rights = {right for grant in found for right in grant.rights}
    # Only the status of the cluster-autoscaler is elsewhere, in a namespace of the cluster.
    elsewhere = {right for right in rights if right.namespace}
    assert elsewhere == {Permission("get", "configmaps", "", "kube-system", "cluster-autoscaler-status")}
    assert {
        Permission("create", "namespaces"),
        Permission("delete", "pods"),
        Permission("list", "resourcequotas"),
    } <= rights
    of_cluster = [each for grant in found if grant.part != "autoscaler" for each in grant.manifests]
    assert {each["kind"] for each in of_cluster} == {"ClusterRole", "ClusterRoleBinding"}
    assert {each["roleRef"]["kind"] for each in of_cluster if "roleRef" in each} == {"ClusterRole"}


def test_no_danger_is_among_what_a_hub_needs():
    risky = list_dangerous_permissions(HUB, namespace="jhub")
    needed = {right for rights in shipped().values() for right in rights}
    assert needed.isdisjoint(risky)
    assert Permission("create", "pods") in risky
    assert Permission("create", "pods") not in list_dangerous_permissions(
        HUB, namespace="jhub", has_user_namespaces=True
    )


def test_rights_are_described_with_the_verbs_of_one_resource_together():
    rights = [
        Permission("list", "secrets"),
        Permission("get", "secrets"),
        Permission("watch", "nodes"),
        Permission("list", "q", "g", "n"),
        Permission("get", "configmaps", "", "kube-system", "status"),
    ]
    assert describe_permissions(rights) == (
        "list, get secrets in all namespaces, or watch nodes, or list q.g, or get configmaps status in kube-system"
    )
