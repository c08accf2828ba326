"""Plants things in a cluster that should not be there, as an administrator would make them, and takes them out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.client.exceptions import ApiException

from devcluster import Cluster
from devcluster.simulated import SIMULATED
from tests.cluster.support.waiting import wait_for

Planted = tuple[str, Mapping[str, Any]]
"""Path of a collection, and an object for it."""


@contextmanager
def planted(api: ApiClient, *objects: Planted) -> Iterator[None]:
    """Have objects in the cluster inside the block; what other objects take along may be gone already at its end."""
    made: list[str] = []
    try:
        for path, body in objects:
            _call(api, path, "POST", body=dict(body))
            made.append(f"{path}/{body['metadata']['name']}")
        yield
    finally:
        for path in reversed(made):
            with contextlib.suppress(ApiException):
                _call(api, path, "DELETE")


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    gpus: Mapping[str, str] | None = None,
    working: Mapping[str, str] | None = None,
    is_simulated: bool = True,
    **spec: Any,
) -> Planted:
    """Return a node; KWOK keeps a simulated one Ready.

    :param gpus: its capacity of extended resources; ``working`` is what of it is allocatable, if not all.
    """
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    own = {SIMULATED: "true", "type": "kwok"} if is_simulated else {}
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **own, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": {**amounts, **(gpus or {})},
            "allocatable": {**amounts, **(gpus or {}), **(working or {})},
        },
    }
    return "/api/v1/nodes", body


def wait_settled(api: ApiClient, names: Iterable[str]) -> None:
    """Wait until nodes are Ready and the control plane has taken its taint for new ones back."""
    core = CoreV1Api(api)

    def is_settled(name: str) -> bool:
        found = core.read_node(name)
        conditions = {each.type: each.status for each in found.status.conditions or []}
        taints = [each.key for each in found.spec.taints or [] if each.key.startswith("node.kubernetes.io/not-ready")]
        return conditions.get("Ready") == "True" and not taints

    wait_for(lambda: all(map(is_settled, names)), "planted nodes ready", timeout_s=30)


@contextmanager
def without_nodes(cluster: Cluster, api: ApiClient, names: Iterable[str], *, fleet: Any) -> Iterator[None]:
    """Have some simulated nodes not there inside the block."""
    core = CoreV1Api(api)
    for name in names:
        with contextlib.suppress(ApiException):
            core.delete_node(name)
    try:
        yield
    finally:
        Cluster.up(name=cluster.name, simulated_nodes=fleet)


def crash_looping(api: ApiClient, namespace: str, prefix: str) -> bool:
    """Tell whether a pod whose name begins so has ended with an error, and was, or will be, started again."""
    for pod in CoreV1Api(api).list_namespaced_pod(namespace).items:
        if pod.metadata.name.startswith(prefix):
            for status in pod.status.container_statuses or []:
                waiting = status.state.waiting
                if waiting is not None and waiting.reason == "CrashLoopBackOff":
                    return True
    return False


def bare_definition(group: str, version: str, kind: str, *, plural: str, is_namespaced: bool = True) -> dict[str, Any]:
    """Return a kind of custom objects that may hold anything, for what cannot run here."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced" if is_namespaced else "Cluster",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def _call(api: ApiClient, path: str, method: str, *, body: Any = None) -> None:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    answer = api.call_api(method, f"{api.configuration.host}{path}", headers, body)
    answer.read()
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise ApiException(status=answer.status, reason=answer.data.decode())
