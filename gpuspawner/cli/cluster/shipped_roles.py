"""What a hub's ServiceAccount may do, beside what it needs: the shipped roles say that, part by part.

The rights that a hub can be given, as the packaged ``helm-values/rbac.yaml`` grants and explains them.

Admins apply that file, so what is said of a right is read from the comments in it, and written nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import yaml

from gpuspawner._resources import data_dir
from gpuspawner.core.json_access import as_dict, as_dicts, as_text, as_texts


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


_ROLES = frozenset({"Role", "ClusterRole"})
# A rule that is commented out, with the lines of its own.
_COMMENTED_OUT = re.compile(r"^( *)# (- apiGroups:.*(?:\n\1#  +\S.*)*)", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.:]) (?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRight:
    """What the hub may do with one resource.

    :param part: the part of the file that it is in, each of which can be left out: ``hub``, ``nodes``, ``pods``, …
    :param resource: in the plural; a subresource stands behind a slash.
    :param is_namespaced: it is for the servers' namespace only.
    :param is_granted: the file grants it as it is shipped; what is commented out there it does not.
    :param purpose: what it is for.
    :param lost: what is lost without it.
    """

    part: str
    api_group: str
    resource: str
    verbs: tuple[str, ...]
    is_namespaced: bool
    is_granted: bool
    purpose: str
    lost: str


def read_shipped_rights() -> tuple[ResourceRight, ...]:
    """Return the rights of the packaged file, in its order."""
    return parse_shipped_rights((data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8"))


def parse_shipped_rights(manifests: str) -> tuple[ResourceRight, ...]:
    """Return the rights that the roles among these manifests hold, whatever else is there."""
    return tuple(right for manifest in re.split(r"(?m)^---$", manifests) for right in _parse_manifest(manifest))


def _parse_manifest(manifest: str) -> Iterator[ResourceRight]:
    whole = _COMMENTED_OUT.sub(lambda found: found[1] + found[2].replace(f"\n{found[1]}# ", f"\n{found[1]}"), manifest)
    role: Any = yaml.safe_load(whole) or {}
    if role.get("kind") not in _ROLES:
        return
    lines, lines_as_shipped = whole.splitlines(), manifest.splitlines()
    of_part = _split_comment([*takewhile(_is_comment, filter(None, lines))])
    for rule, number in zip(role["rules"], _find_rule_lines(whole), strict=True):
        own = _split_comment([*takewhile(_is_comment, reversed(lines[:number]))][::-1])
        purpose, lost = own if any(own) else of_part
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield ResourceRight(
                    part=role["metadata"]["name"].removeprefix(_ROLE_PREFIX),
                    api_group=group,
                    resource=resource,
                    verbs=tuple(rule["verbs"]),
                    is_namespaced=role["kind"] == "Role",
                    is_granted=lines[number] == lines_as_shipped[number],
                    purpose=purpose,
                    lost=lost,
                )


def _find_rule_lines(manifest: str) -> Sequence[int]:
    """Return the number of the line that each rule of a role begins at."""
    node: Any = yaml.compose(manifest)
    (rules,) = (value for key, value in node.value if key.value == "rules")
    return [rule.start_mark.line for rule in rules.value]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _split_comment(comment: Sequence[str]) -> tuple[str, str]:
    """Return the sentences of a comment up to the first one that says what is lost, and the others."""
    sentences = _SENTENCE_END.split(" ".join(" ".join(line.lstrip(" #") for line in comment).split()))
    begins = next((at for at, sentence in enumerate(sentences) if "ithout it" in sentence), len(sentences))
    return " ".join(sentences[:begins]), " ".join(sentences[begins:])
