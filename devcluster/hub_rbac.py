"""Gives a hub exactly the rights that gpuspawner ships: ``helm-values/rbac.yaml``, for the hub's namespace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import ApiClient, CoreV1Api, RbacAuthorizationV1Api
from kubernetes.client.exceptions import NotFoundException

MANIFEST = Path(__file__).resolve().parent.parent / "helm-values" / "rbac.yaml"
SHIPPED_NAMESPACE = "jupyterhub"
SERVICE_ACCOUNT = "hub"
FIELD_MANAGER = "gpuspawner-devcluster"

_APPLY = "application/apply-patch+yaml"


def ensure_namespace(api: ApiClient, namespace: str) -> None:
    """Create a namespace, or leave it as it is."""
    apply(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})


def apply_rbac(api: ApiClient, namespace: str) -> None:
    """Apply the shipped roles and bindings for the ServiceAccount ``hub`` of a namespace, and that account."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    apply(api, {**account, "metadata": {"name": SERVICE_ACCOUNT, "namespace": namespace}})
    for manifest in manifests(namespace):
        apply(api, manifest)


def manifests(namespace: str) -> list[dict[str, Any]]:
    """Return the objects of the shipped file for a hub in a namespace.

    The namespace replaces the shipped one in the text, as with the command in the file's first lines.
    """
    text = MANIFEST.read_text(encoding="utf-8").replace(SHIPPED_NAMESPACE, namespace)
    return list(yaml.safe_load_all(text))


def remove_rbac(api: ApiClient, namespace: str) -> None:
    """Delete the shipped roles and bindings for the ServiceAccount ``hub`` of a namespace."""
    for manifest in manifests(namespace):
        remove(api, manifest)


def apply(api: ApiClient, manifest: Mapping[str, Any]) -> None:
    """Create an object or bring it to this state (server-side apply).

    :raises kubernetes.client.ApiException: the API server refused it.
    """
    name, place = manifest["metadata"]["name"], _find_place(manifest)
    patch = _patch_method(api, manifest["kind"])
    patch(name, *place, dict(manifest), field_manager=FIELD_MANAGER, force=True, _content_type=_APPLY)


def remove(api: ApiClient, manifest: Mapping[str, Any]) -> None:
    """Delete a role or binding, if there is one of this name."""
    rbac = RbacAuthorizationV1Api(api)
    methods: dict[str, Callable[..., object]] = {
        "Role": rbac.delete_namespaced_role,
        "RoleBinding": rbac.delete_namespaced_role_binding,
        "ClusterRole": rbac.delete_cluster_role,
        "ClusterRoleBinding": rbac.delete_cluster_role_binding,
    }
    with contextlib.suppress(NotFoundException):
        methods[manifest["kind"]](manifest["metadata"]["name"], *_find_place(manifest))


def _find_place(manifest: Mapping[str, Any]) -> list[str]:
    namespace = manifest["metadata"].get("namespace")
    return [] if namespace is None else [namespace]


def _patch_method(api: ApiClient, kind: str) -> Callable[..., object]:
    core, rbac = CoreV1Api(api), RbacAuthorizationV1Api(api)
    methods: dict[str, Callable[..., object]] = {
        "Namespace": core.patch_namespace,
        "ServiceAccount": core.patch_namespaced_service_account,
        "Role": rbac.patch_namespaced_role,
        "RoleBinding": rbac.patch_namespaced_role_binding,
        "ClusterRole": rbac.patch_cluster_role,
        "ClusterRoleBinding": rbac.patch_cluster_role_binding,
    }
    return methods[kind]
