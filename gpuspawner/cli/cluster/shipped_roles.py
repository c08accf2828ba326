"""RBAC rights that the packaged ``helm-values/rbac.yaml`` grants the hub, and dangerous rights that no hub needs.

Only comments in ``rbac.yaml`` explain the purpose of each right, so this module parses the comments, too.
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
    """Namespace and name of a ServiceAccount."""

    namespace: str
    name: str


class Permission(NamedTuple):
    """The RBAC right to use one verb on one resource.

    :param verb: such as ``get`` or ``create``.
    :param resource: plural name, with a subresource if any (``localqueues/pendingworkloads``).
    :param group: API group, empty for core.
    :param namespace: empty if the resource is cluster-scoped, or if the right applies in all namespaces.
    :param name: name of the only object that the right is for; empty if it is for all objects.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleGrant:
    """One role of ``helm-values/rbac.yaml`` with its binding.

    :param part: what the role is for, such as ``nodes`` in ``gpuspawner-nodes-jupyterhub``.
    :param rights: the rights that the role grants.
    :param manifests: the role, and its binding to the hub's ServiceAccount.
    """

    part: str
    rights: tuple[Permission, ...]
    manifests: tuple[Mapping[str, object], ...]


_ROLE_PREFIX = "gpuspawner-"
_SHIPPED_NAMESPACE = "jupyterhub"
"""The hub's namespace in ``helm-values/rbac.yaml``. Each name ends with it, so two hubs share no object."""
_NAMESPACED_RESOURCES = frozenset(
    {"pods", "pods/exec", "secrets", "persistentvolumeclaims", "events", "resourcequotas", "limitranges"}
)
_CREATE_NAMESPACES_RULE: Mapping[str, object] = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}
"""RBAC rule that the hub needs if ``enable_user_namespaces`` is true: KubeSpawner then creates users' namespaces."""


def build_role_grants(
    documents: Iterable[object], *, account: ServiceAccount, namespace: str, has_user_namespaces: bool = False
) -> tuple[RoleGrant, ...]:
    """Return the roles of ``helm-values/rbac.yaml``, bound to a ServiceAccount and named after its namespace.

    :param documents: YAML documents of ``helm-values/rbac.yaml``.
    :param has_user_namespaces: whether each user has a namespace; if true, each Role becomes a ClusterRole.
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
            part=_find_part(name),
            rights=tuple(_list_permissions(role, namespace=_find_namespace(role, servers=namespace))),
            manifests=_bind_manifests([role, bindings.get((kind, name), {})], account=account, namespace=namespace),
        )
        for (kind, name), role in roles.items()
    )


def list_dangerous_permissions(
    account: ServiceAccount, *, namespace: str, has_user_namespaces: bool = False
) -> dict[Permission, str]:
    """Return the dangerous rights that no hub needs: right → what an attacker in the hub could do, as a verb phrase.

    The right to read secrets of the hub's namespace is left out, because zero-to-jupyterhub grants it.

    :param has_user_namespaces: whether each user has a namespace. The result then lacks the right to create pods in all
        namespaces, because the hub needs it.
    """
    everywhere = {
        Permission("list", "secrets"): "read every password and token of the cluster",
        Permission("get", "secrets"): "read every password and token of the cluster",
        Permission("create", "pods/exec"): "run commands in every pod of the cluster",
        Permission("create", "pods"): "start pods in every namespace, also the control plane's",
        Permission("patch", "nodes"): "change nodes",
        Permission("impersonate", "users"): "act as any user",
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
"""The right to all verbs on all resources, as ``cluster-admin`` grants it."""


def describe_permissions(rights: Iterable[Permission]) -> str:
    """Return RBAC rights as part of a sentence, with the verbs of each resource together: ``list, watch nodes``.

    A right to one object is described with the object's name and namespace.
    """
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        resource = f"{right.resource}.{right.group}" if right.group else right.resource
        everywhere = " in all namespaces" if not right.namespace and right.resource in _NAMESPACED_RESOURCES else ""
        one = f" {right.name} in {right.namespace}" if right.name else ""
        verbs.setdefault((resource, one or everywhere), []).append(right.verb)
    return ", or ".join(f"{', '.join(own)} {resource}{where}" for (resource, where), own in verbs.items())


def _widen_to_cluster(document: object) -> Mapping[str, object]:
    found = as_dict(document)
    if not _is_beside_servers(found):
        return found
    name = as_text(as_dict(found.get("metadata")).get("name"))
    metadata = {"name": name}
    if as_text(found.get("kind")) == "Role":
        rules = as_dicts(found.get("rules"))
        new = [_CREATE_NAMESPACES_RULE] if _find_part(name) == "hub" else []
        return {**found, "kind": "ClusterRole", "metadata": metadata, "rules": [*new, *rules]}
    if as_text(found.get("kind")) == "RoleBinding":
        return {
            **found,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {**as_dict(found.get("roleRef")), "kind": "ClusterRole"},
        }
    return found


def _list_permissions(role: Mapping[str, object], *, namespace: str) -> Iterator[Permission]:
    for rule in as_dicts(role.get("rules")):
        for group in as_texts(rule.get("apiGroups")):
            for resource in as_texts(rule.get("resources")):
                for verb in as_texts(rule.get("verbs")):
                    for name in as_texts(rule.get("resourceNames")) or ("",):
                        yield Permission(verb, resource, group, namespace, name)


def _bind_manifests(
    documents: Sequence[Mapping[str, object]], *, account: ServiceAccount, namespace: str
) -> tuple[Mapping[str, object], ...]:
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    placed = []
    for document in filter(None, documents):
        metadata = _name_after(as_dict(document.get("metadata")), account)
        if _is_beside_servers(document):
            metadata["namespace"] = namespace
        bound = (
            {"roleRef": _name_after(as_dict(document.get("roleRef")), account), "subjects": [subject]}
            if "subjects" in document
            else {}
        )
        placed.append({**document, "metadata": metadata, **bound})
    return tuple(placed)


def _is_beside_servers(manifest: Mapping[str, object]) -> bool:
    """Return whether an object of the file belongs to the servers' namespace."""
    return as_dict(manifest.get("metadata")).get("namespace") == _SHIPPED_NAMESPACE


def _find_namespace(manifest: Mapping[str, object], *, servers: str) -> str:
    own = as_text(as_dict(manifest.get("metadata")).get("namespace"))
    return servers if _is_beside_servers(manifest) else own


def _name_after(reference: Mapping[str, object], account: ServiceAccount) -> dict[str, object]:
    name = f"{_ROLE_PREFIX}{_find_part(as_text(reference.get('name')))}-{account.namespace}"
    return {**reference, "name": name}


def _find_part(name: str) -> str:
    return name.removeprefix(_ROLE_PREFIX).removesuffix(f"-{_SHIPPED_NAMESPACE}")


_ROLES = frozenset({"Role", "ClusterRole"})
# This pattern matches all lines of an RBAC rule that is commented out.
_COMMENTED_OUT = re.compile(r"^( *)# (- apiGroups:.*(?:\n\1#  +\S.*)*)", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.:]) (?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRight:
    """The hub's RBAC right to use some verbs on one resource.

    :param part: what the role is for: ``hub``, ``nodes``, ``pods``, …
    :param api_group: empty for core.
    :param resource: plural name, with a subresource after a slash.
    :param is_namespaced: whether the right is limited to the servers' namespace.
    :param elsewhere: another namespace to which the right is limited; empty without.
    :param name: name of the only object that the right is for; empty if it is for all objects.
    :param is_granted: false if the rule is commented out in ``helm-values/rbac.yaml``.
    :param purpose: sentences that say why the hub needs the right.
    :param lost: sentences that say what does not work without the right.
    """

    part: str
    api_group: str
    resource: str
    verbs: tuple[str, ...]
    is_namespaced: bool
    is_granted: bool
    purpose: str
    lost: str
    elsewhere: str = ""
    name: str = ""

    @property
    def scope(self) -> str:
        """Where the right holds: ``namespace`` (that of the servers), ``cluster``, or the name of a namespace."""
        return "namespace" if self.is_namespaced else self.elsewhere or "cluster"


def read_shipped_rights() -> tuple[ResourceRight, ...]:
    """Return the rights in the packaged ``helm-values/rbac.yaml``, in the order of the file."""
    return parse_shipped_rights((data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8"))


def parse_shipped_rights(manifests: str) -> tuple[ResourceRight, ...]:
    """Return the rights of the roles in the manifests, including the rights in rules that are commented out.

    :param manifests: YAML documents with comments.
    """
    return tuple(right for manifest in re.split(r"(?m)^---$", manifests) for right in _parse_manifest(manifest))


def _parse_manifest(manifest: str) -> Iterator[ResourceRight]:
    whole = _COMMENTED_OUT.sub(lambda found: found[1] + found[2].replace(f"\n{found[1]}# ", f"\n{found[1]}"), manifest)
    role: Any = yaml.safe_load(whole) or {}
    if role.get("kind") not in _ROLES:
        return
    lines, lines_as_shipped = whole.splitlines(), manifest.splitlines()
    namespace = "" if _is_beside_servers(role) else as_text(role["metadata"].get("namespace"))
    role_comment = _split_comment([*takewhile(_is_comment, filter(None, lines))])
    for rule, number in zip(role["rules"], _find_rule_lines(whole), strict=True):
        own = _split_comment([*takewhile(_is_comment, reversed(lines[:number]))][::-1])
        purpose, lost = own if any(own) else role_comment
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    yield ResourceRight(
                        part=_find_part(role["metadata"]["name"]),
                        api_group=group,
                        resource=resource,
                        verbs=tuple(rule["verbs"]),
                        is_namespaced=role["kind"] == "Role" and not namespace,
                        is_granted=lines[number] == lines_as_shipped[number],
                        purpose=purpose,
                        lost=lost,
                        elsewhere=namespace,
                        name=name,
                    )


def _find_rule_lines(manifest: str) -> Sequence[int]:
    node: Any = yaml.compose(manifest)
    (rules,) = (value for key, value in node.value if key.value == "rules")
    return [rule.start_mark.line for rule in rules.value]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _split_comment(comment: Sequence[str]) -> tuple[str, str]:
    """Return two parts of a comment: the purpose of a right, and what fails if the right is missing.

    The second part begins with the first sentence that contains "without it". If the comment has no such sentence, the
    second part is empty.
    """
    sentences = _SENTENCE_END.split(" ".join(" ".join(line.lstrip(" #") for line in comment).split()))
    begins = next((at for at, sentence in enumerate(sentences) if "ithout it" in sentence), len(sentences))
    return " ".join(sentences[:begins]), " ".join(sentences[begins:])
