"""What a hub's ServiceAccount may do, beside what it needs: the shipped roles say that, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuspawner.core.rawjson import mapping, mappings, text, texts


class Account(NamedTuple):
    """A ServiceAccount."""

    namespace: str
    name: str


class Right(NamedTuple):
    """One verb on one resource.

    :param resource: its plural, with what is below it (``localqueues/pendingworkloads``).
    :param namespace: empty for the whole cluster, and for all namespaces.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One part of the shipped roles: a role and its binding.

    :param part: the role's name without the project's (``nodes``).
    :param manifests: both, for the account that is meant.
    """

    part: str
    rights: tuple[Right, ...]
    manifests: tuple[Mapping[str, object], ...]


_PREFIX = "gpuspawner-"
_NAMESPACED = frozenset({"pods", "pods/exec", "secrets", "persistentvolumeclaims", "events", "resourcequotas"})
_NAMESPACES: Mapping[str, object] = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}
"""What KubeSpawner asks for at the start of each server whose user has a namespace of their own."""


def grants(
    documents: Iterable[object], *, account: Account, namespace: str, has_user_namespaces: bool = False
) -> tuple[Grant, ...]:
    """Return the parts of the shipped roles for an account.

    :param documents: of ``helm-values/rbac.yaml``.
    :param namespace: where servers are started.
    :param has_user_namespaces: they are started in a namespace for each user, so roles are for all namespaces.
    """
    if has_user_namespaces:
        documents = map(_for_all_namespaces, documents)
    roles: dict[tuple[str, str], Mapping[str, object]] = {}
    bindings: dict[tuple[str, str], Mapping[str, object]] = {}
    for document in map(mapping, documents):
        kind, metadata = text(document.get("kind")), mapping(document.get("metadata"))
        if kind in ("Role", "ClusterRole"):
            roles[kind, text(metadata.get("name"))] = document
        elif kind in ("RoleBinding", "ClusterRoleBinding"):
            reference = mapping(document.get("roleRef"))
            bindings[text(reference.get("kind")), text(reference.get("name"))] = document
    return tuple(
        Grant(
            part=name.removeprefix(_PREFIX),
            rights=tuple(_rights(role, namespace="" if kind == "ClusterRole" else namespace)),
            manifests=_placed([role, bindings.get((kind, name), {})], account=account, namespace=namespace),
        )
        for (kind, name), role in roles.items()
    )


def dangers(account: Account, *, namespace: str, has_user_namespaces: bool = False) -> dict[Right, str]:
    """Return rights that a hub needs for nothing, and what whoever takes it over could do with each.

    zero-to-jupyterhub lets its hub read the secrets of its own namespace: that is left out.

    :param has_user_namespaces: the hub starts servers in a namespace for each user.
    """
    everywhere = {
        Right("list", "secrets"): "read every password and token of the cluster",
        Right("get", "secrets"): "read every password and token of the cluster",
        Right("create", "pods/exec"): "run commands in every pod of the cluster",
        Right("create", "pods"): "start pods in every namespace, also the control plane's",
        Right("patch", "nodes"): "change nodes",
        Right("impersonate", "users"): "act as anybody",
        Right("create", "clusterrolebindings", "rbac.authorization.k8s.io"): "give itself more rights",
        Right("escalate", "clusterroles", "rbac.authorization.k8s.io"): "give itself more rights",
    }
    if has_user_namespaces:
        del everywhere[Right("create", "pods")]
    own = {
        Right("create", "pods/exec", namespace=namespace): "run commands in every user's server",
        Right("create", "rolebindings", "rbac.authorization.k8s.io", account.namespace): "give itself more rights",
    }
    return {**everywhere, **own}


EVERYTHING = Right("*", "*", "*")
"""What a cluster's admin may."""


def described(rights: Iterable[Right]) -> str:
    """Return rights as a sentence has them, the verbs on one resource together."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        resource = f"{right.resource}.{right.group}" if right.group else right.resource
        everywhere = " in all namespaces" if not right.namespace and right.resource in _NAMESPACED else ""
        verbs.setdefault((resource, everywhere), []).append(right.verb)
    return ", or ".join(f"{', '.join(own)} {resource}{where}" for (resource, where), own in verbs.items())


def _for_all_namespaces(document: object) -> Mapping[str, object]:
    """Return a role or binding of one namespace as one of the whole cluster; any other as it is."""
    found = mapping(document)
    if text(found.get("kind")) == "Role":
        rules = mappings(found.get("rules"))
        name = text(mapping(found.get("metadata")).get("name"))
        new = [_NAMESPACES] if name == f"{_PREFIX}hub" else []
        return {**found, "kind": "ClusterRole", "rules": [*new, *rules]}
    if text(found.get("kind")) == "RoleBinding":
        return {
            **found,
            "kind": "ClusterRoleBinding",
            "roleRef": {**mapping(found.get("roleRef")), "kind": "ClusterRole"},
        }
    return found


def _rights(role: Mapping[str, object], *, namespace: str) -> Iterator[Right]:
    for rule in mappings(role.get("rules")):
        for group in texts(rule.get("apiGroups")):
            for resource in texts(rule.get("resources")):
                for verb in texts(rule.get("verbs")):
                    yield Right(verb, resource, group, namespace)


def _placed(
    documents: Sequence[Mapping[str, object]], *, account: Account, namespace: str
) -> tuple[Mapping[str, object], ...]:
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    placed = []
    for document in filter(None, documents):
        metadata = dict(mapping(document.get("metadata")))
        if not text(document.get("kind")).startswith("Cluster"):
            metadata["namespace"] = namespace
        bound = {"subjects": [subject]} if "subjects" in document else {}
        placed.append({**document, "metadata": metadata, **bound})
    return tuple(placed)
