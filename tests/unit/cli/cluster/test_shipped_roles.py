from __future__ import annotations

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


def test_manifests_are_for_the_account_and_the_namespace():
    role = {"kind": "Role", "metadata": {"name": "gpuspawner-x"}, "rules": []}
    reference = {"kind": "Role", "name": "gpuspawner-x"}
    binding = {"kind": "RoleBinding", "metadata": {"name": "gpuspawner-x"}, "roleRef": reference, "subjects": [1]}
    (grant,) = build_role_grants([role, binding, None], account=HUB, namespace="jhub")
    assert [each["metadata"]["namespace"] for each in grant.manifests] == ["jhub", "jhub"]
    assert grant.manifests[1]["subjects"] == [{"kind": "ServiceAccount", "name": "hub", "namespace": "hubs"}]


def test_where_users_have_namespaces_of_their_own_all_roles_are_for_the_whole_cluster():
    documents = yaml.safe_load_all((data_dir("helm-values") / "rbac.yaml").read_text())
    found = build_role_grants(documents, account=HUB, namespace="jhub", has_user_namespaces=True)
    rights = {right for grant in found for right in grant.rights}
    assert {right.namespace for right in rights} == {""}
    assert {
        Permission("create", "namespaces"),
        Permission("delete", "pods"),
        Permission("list", "resourcequotas"),
    } <= rights
    assert {each["kind"] for grant in found for each in grant.manifests} == {"ClusterRole", "ClusterRoleBinding"}
    assert {each["roleRef"]["kind"] for grant in found for each in grant.manifests if "roleRef" in each} == {
        "ClusterRole"
    }


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
    ]
    assert describe_permissions(rights) == "list, get secrets in all namespaces, or watch nodes, or list q.g"
