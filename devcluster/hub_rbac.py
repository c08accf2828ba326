"""Gives a hub exactly the rights that gpuspawner ships: ``helm-values/rbac.yaml``, in a namespace of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import ApiClient, CoreV1Api, RbacAuthorizationV1Api
from kubernetes.client.exceptions import NotFoundException

MANIFEST = Path(__file__).resolve().parent.parent / "helm-values" / "rbac.yaml"
SERVICE_ACCOUNT = "hub"
FIELD_MANAGER = "gpuspawner-devcluster"

_APPLY = "application/apply-patch+yaml"


def ensure_namespace(api: ApiClient, namespace: str) -> None:
    """Create a namespace, or leave it as it is."""
    apply(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})


def apply_rbac(api: ApiClient, namespace: str) -> None:
    """Apply the shipped roles and bindings for the ServiceAccount ``hub`` of a namespace, and that account."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SERVICE_ACCOUNT}}
    for manifest in [_placed(account, namespace, renamed={}), *manifests(namespace)]:
        apply(api, manifest)


def manifests(namespace: str) -> list[dict[str, Any]]:
    """Return the objects of the shipped file as they are applied for one namespace.

    Objects of the whole cluster get the namespace into their names: two hubs on one cluster would else share it, and
    a demo would take an installation's rights along when it ends.
    """
    shipped = [document for document in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")) if document]
    renamed = {
        document["metadata"]["name"]: f"{document['metadata']['name']}-{namespace}"
        for document in shipped
        if document["kind"] == "ClusterRole"
    }
    return [_placed(document, namespace, renamed=renamed) for document in shipped]


def remove_rbac(api: ApiClient, namespace: str) -> None:
    """Delete what belongs to the whole cluster; the rest goes with the namespace."""
    rbac = RbacAuthorizationV1Api(api)
    delete: dict[str, Callable[..., object]] = {
        "ClusterRole": rbac.delete_cluster_role,
        "ClusterRoleBinding": rbac.delete_cluster_role_binding,
    }
    for manifest in manifests(namespace):
        if manifest["kind"] in delete:
            with contextlib.suppress(NotFoundException):
                delete[manifest["kind"]](manifest["metadata"]["name"])


def apply(api: ApiClient, manifest: Mapping[str, Any]) -> None:
    """Create an object or bring it to this state (server-side apply).

    :raises kubernetes.client.ApiException: the API server refused it.
    """
    metadata = manifest["metadata"]
    place = [metadata["namespace"]] if "namespace" in metadata else []
    patch = _patch_method(api, manifest["kind"])
    patch(metadata["name"], *place, dict(manifest), field_manager=FIELD_MANAGER, force=True, _content_type=_APPLY)


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


def _placed(manifest: Mapping[str, Any], namespace: str, *, renamed: Mapping[str, str]) -> dict[str, Any]:
    metadata = dict(manifest["metadata"])
    placed = {**manifest, "metadata": metadata}
    if manifest["kind"].startswith("Cluster"):
        metadata["name"] = f"{metadata['name']}-{namespace}"
    else:
        metadata["namespace"] = namespace
    if "subjects" in manifest:
        placed["subjects"] = [{**subject, "namespace": namespace} for subject in manifest["subjects"]]
    if "roleRef" in manifest and manifest["roleRef"]["kind"] == "ClusterRole":
        reference = manifest["roleRef"]
        placed["roleRef"] = {**reference, "name": renamed.get(reference["name"], reference["name"])}
    return placed
