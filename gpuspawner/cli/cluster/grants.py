"""What a hub's ServiceAccount may do, beside what it needs: the shipped roles say that, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuspawner.core.rawjson import as_dict, as_dicts, as_text, as_texts


class ServiceAccount(NamedTuple):
    """A ServiceAccount."""

    namespace: str
    name: str


class Permission(NamedTuple):
    """One verb on one resource.

    :param resource: its plural, with what is below it (``localqueues/pendingworkloads``).
    :param namespace: empty for the whole cluster, and for all namespaces.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleGrant:
    """One part of the shipped roles: a role and its binding.

    :param part: the role's name without the project's (``nodes``).
    :param manifests: both, for the account that is meant.
    """

    part: str
    rights: tuple[Permission, ...]
    manifests: tuple[Mapping[str, object], ...]


_ROLE_PREFIX = "gpuspawner-"
_NAMESPACED_RESOURCES = frozenset(
    {"pods", "pods/exec", "secrets", "persistentvolumeclaims", "events", "resourcequotas"}
)
_CREATE_NAMESPACES_RULE: Mapping[str, object] = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}
"""What KubeSpawner asks for at the start of each server whose user has a namespace of their own."""


def build_role_grants(
    documents: Iterable[object], *, account: ServiceAccount, namespace: str, has_user_namespaces: bool = False
) -> tuple[RoleGrant, ...]:
    """Return the parts of the shipped roles for an account.

    :param documents: of ``helm-values/rbac.yaml``.
    :param namespace: where servers are started.
    :param has_user_namespaces: they are started in a namespace for each user, so roles are for all namespaces.
    """
    if has_user_namespaces:
        documents = map(_widen_to_cluster, documents)
    roles: dict[tuple[str, str], Mapping[str, object]] = {}
    bindings: dict[tuple[str, str], Mapping[str, object]] = {}
    for document in map(as_dict, documents):
        kind, metadata = as_text(document.get("kind")), as_dict(document.get("metadata"))
        if kind in ("Role", "ClusterRole"):
            roles[kind, as_text(metadata.get("name"))] = document
        elif kind in ("RoleBinding", "ClusterRoleBinding"):
            reference = as_dict(document.get("roleRef"))
            bindings[as_text(reference.get("kind")), as_text(reference.get("name"))] = document
    return tuple(
        RoleGrant(
            part=name.removeprefix(_ROLE_PREFIX),
            rights=tuple(_list_permissions(role, namespace="" if kind == "ClusterRole" else namespace)),
            manifests=_bind_manifests([role, bindings.get((kind, name), {})], account=account, namespace=namespace),
        )
        for (kind, name), role in roles.items()
    )


def list_dangerous_permissions(
    account: ServiceAccount, *, namespace: str, has_user_namespaces: bool = False
) -> dict[Permission, str]:
    """Return rights that a hub needs for nothing, and what whoever takes it over could do with each.

    zero-to-jupyterhub lets its hub read the secrets of its own namespace: that is left out.

    :param has_user_namespaces: the hub starts servers in a namespace for each user.
    """
    everywhere = {
        Permission("list", "secrets"): "read every password and token of the cluster",
        Permission("get", "secrets"): "read every password and token of the cluster",
        Permission("create", "pods/exec"): "run commands in every pod of the cluster",
        Permission("create", "pods"): "start pods in every namespace, also the control plane's",
        Permission("patch", "nodes"): "change nodes",
        Permission("impersonate", "users"): "act as anybody",
        Permission("create", "clusterrolebindings", "rbac.authorization.k8s.io"): "give itself more rights",
        Permission("escalate", "clusterroles", "rbac.authorization.k8s.io"): "give itself more rights",
    }
    if has_user_namespaces:
        del everywhere[Permission("create", "pods")]
    own = {
        Permission("create", "pods/exec", namespace=namespace): "run commands in every user's server",
        Permission("create", "rolebindings", "rbac.authorization.k8s.io", account.namespace): "give itself more rights",
    }
    return {**everywhere, **own}


ALL_PERMISSIONS = Permission("*", "*", "*")
"""What a cluster's admin may."""


def describe_permissions(rights: Iterable[Permission]) -> str:
    """Return rights as a sentence has them, the verbs on one resource together."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        resource = f"{right.resource}.{right.group}" if right.group else right.resource
        everywhere = " in all namespaces" if not right.namespace and right.resource in _NAMESPACED_RESOURCES else ""
        verbs.setdefault((resource, everywhere), []).append(right.verb)
    return ", or ".join(f"{', '.join(own)} {resource}{where}" for (resource, where), own in verbs.items())


def _widen_to_cluster(document: object) -> Mapping[str, object]:
    """Return a role or binding of one namespace as one of the whole cluster; any other as it is."""
    found = as_dict(document)
    if as_text(found.get("kind")) == "Role":
        rules = as_dicts(found.get("rules"))
        name = as_text(as_dict(found.get("metadata")).get("name"))
        new = [_CREATE_NAMESPACES_RULE] if name == f"{_ROLE_PREFIX}hub" else []
        return {**found, "kind": "ClusterRole", "rules": [*new, *rules]}
    if as_text(found.get("kind")) == "RoleBinding":
        return {
            **found,
            "kind": "ClusterRoleBinding",
            "roleRef": {**as_dict(found.get("roleRef")), "kind": "ClusterRole"},
        }
    return found


def _list_permissions(role: Mapping[str, object], *, namespace: str) -> Iterator[Permission]:
    for rule in as_dicts(role.get("rules")):
        for group in as_texts(rule.get("apiGroups")):
            for resource in as_texts(rule.get("resources")):
                for verb in as_texts(rule.get("verbs")):
                    yield Permission(verb, resource, group, namespace)


def _bind_manifests(
    documents: Sequence[Mapping[str, object]], *, account: ServiceAccount, namespace: str
) -> tuple[Mapping[str, object], ...]:
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    placed = []
    for document in filter(None, documents):
        metadata = dict(as_dict(document.get("metadata")))
        if not as_text(document.get("kind")).startswith("Cluster"):
            metadata["namespace"] = namespace
        bound = {"subjects": [subject]} if "subjects" in document else {}
        placed.append({**document, "metadata": metadata, **bound})
    return tuple(placed)
