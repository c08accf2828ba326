"""Reads all that the rules look at, at one moment; what may not be read is left out and named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import yaml
from kubernetes_asyncio.client import ApiClient

from gpuspawner._resources import data_dir
from gpuspawner.cli.cluster.cluster_view import ClusterViewer
from gpuspawner.cli.cluster.connection import ClusterError
from gpuspawner.cli.cluster.shipped_roles import (
    ALL_PERMISSIONS,
    Permission,
    RoleGrant,
    ServiceAccount,
    build_role_grants,
    list_dangerous_permissions,
)
from gpuspawner.cli.doctor.api import (
    NotServedError,
    check_permissions,
    describe_unanswered,
    fetch_kubernetes_version,
    fetch_objects,
)
from gpuspawner.cli.doctor.device_plugins import is_device_plugin
from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.doctor.pod_health import list_live_hub_pods
from gpuspawner.cli.values.chart_config import DEFAULT_HUB_ACCOUNT, get_chart_value
from gpuspawner.cli.values.chart_requirements import ChartRequirements, read_chart_requirements
from gpuspawner.core.errors import Problem
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.kube.client.api_requests import APIUnavailableError

_HUB_PODS_QUERY = {"labelSelector": "app=jupyterhub,component=hub"}

_CLUSTER_PATHS = {
    ObjectKind.NODES: ("/api/v1/nodes",),
    ObjectKind.DAEMON_SETS: ("/apis/apps/v1/daemonsets",),
    ObjectKind.DEPLOYMENTS: ("/apis/apps/v1/deployments",),
    ObjectKind.RUNTIME_CLASSES: ("/apis/node.k8s.io/v1/runtimeclasses",),
    ObjectKind.PRIORITY_CLASSES: ("/apis/scheduling.k8s.io/v1/priorityclasses",),
    ObjectKind.STORAGE_CLASSES: ("/apis/storage.k8s.io/v1/storageclasses",),
    ObjectKind.DEVICE_CLASSES: ("/apis/resource.k8s.io/v1/deviceclasses",),
    ObjectKind.NODE_POOLS: ("/apis/karpenter.sh/v1/nodepools",),
    ObjectKind.QUEUE_PRIORITIES: tuple(
        f"/apis/kueue.x-k8s.io/{version}/workloadpriorityclasses" for version in ("v1beta2", "v1beta1")
    ),
}
"""Kind → paths, of which the first one that is served is read."""

_NAMESPACED_PATHS = {
    ObjectKind.QUOTAS: ("/api/v1/namespaces/{}/resourcequotas",),
    ObjectKind.LIMIT_RANGES: ("/api/v1/namespaces/{}/limitranges",),
    ObjectKind.LOCAL_QUEUES: tuple(
        f"/apis/kueue.x-k8s.io/{version}/namespaces/{{}}/localqueues" for version in ("v1beta2", "v1beta1")
    ),
}


class FactReader:
    """What was read so far.

    :ivar unread: kinds that may not be read, or not now, with why.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.read: dict[ObjectKind, tuple[KubernetesObject, ...]] = {}
        self.unserved: set[ObjectKind] = set()
        self.unread: dict[ObjectKind, str] = {}

    async def read_kind(self, kind: ObjectKind, paths: Iterable[str], **options: Any) -> None:
        """Read a kind from the first path that is served."""
        for path in paths:
            try:
                found = await fetch_objects(self._client, path, **options)
            except NotServedError:
                continue
            except APIUnavailableError as error:
                self.unread[kind] = str(error)
            else:
                self.read[kind] = (*self.read.get(kind, ()), *map(_choose_reducer(kind), found))
            return
        self.unserved.add(kind)

    async def read_named(self, kind: ObjectKind, names: Iterable[str], *, path: str) -> None:
        """Read which objects there are of some names, and nothing else of them."""
        self.read.setdefault(kind, ())
        for name in names:
            await self.read_kind(kind, [path], query={"fieldSelector": f"metadata.name={name}"}, names_only=True)
        if kind in self.unread:
            del self.read[kind]


async def read_facts(
    viewer: ClusterViewer, *, account: ServiceAccount | None
) -> tuple[ClusterFacts, Mapping[ObjectKind, str]]:
    """Return all that rules look at, and what could not be read, with why.

    :param account: the hub's, None to find it.
    :raises ClusterError: the API server does not answer, or shows no nodes.
    """
    cluster, values = viewer.cluster, viewer.values.chart
    namespace = cluster.namespace
    try:
        version = await fetch_kubernetes_version(cluster.client)
    except APIUnavailableError as error:
        raise _make_unreadable_error(f"The API server does not answer: {error}.") from error
    reading = FactReader(cluster.client)
    looked, *_ = await asyncio.gather(viewer.read_view(), _read_all(reading, namespace))
    if looked.inventory.nodes is None:
        raise _make_unreadable_error(looked.inventory.reason)
    requirements = read_chart_requirements(values, viewer.config) if values else None
    await _read_more(reading, namespace, requirements=requirements)
    account = account or _find_hub_account(
        reading, namespace, named=as_text(get_chart_value(values, "hub.serviceAccount.name"))
    )
    if account is not None:
        await reading.read_named(
            ObjectKind.ACCOUNTS, [account.name], path=f"/api/v1/namespaces/{account.namespace}/serviceaccounts"
        )
    has_user_namespaces = requirements is not None and requirements.has_user_namespaces
    grants = _list_grants(account, namespace, has_user_namespaces=has_user_namespaces)
    facts = ClusterFacts(
        namespace=namespace,
        now=datetime.now(UTC),
        version=version,
        nodes=looked.inventory.nodes,
        read=reading.read,
        unserved=frozenset(reading.unserved),
        catalogue=looked.catalogue,
        configured=looked.settings.configured,
        table=looked.settings.table,
        tolerations=looked.tolerations,
        requirements=requirements,
        account=account,
        grants=grants,
    )
    asked = _list_permissions_to_check(facts)
    answers = await check_permissions(cluster.client, asked, account=account) if account is not None else {}
    if reason := describe_unanswered(asked, answers):
        reading.unread[ObjectKind.RIGHTS] = reason
    return replace(facts, allowed=answers), reading.unread


def _list_grants(account: ServiceAccount | None, namespace: str, *, has_user_namespaces: bool) -> tuple[RoleGrant, ...]:
    """Return what the shipped roles grant the hub's account, nothing where the account is not known."""
    if account is None:
        return ()
    return build_role_grants(
        _load_shipped_roles(), account=account, namespace=namespace, has_user_namespaces=has_user_namespaces
    )


def _list_permissions_to_check(facts: ClusterFacts) -> tuple[Permission, ...]:
    """Return which rights of the hub to ask for: those it needs, and those that nobody should have."""
    if facts.account is None:
        return ()
    namespaces = facts.requirements is not None and facts.requirements.has_user_namespaces
    risky = list_dangerous_permissions(facts.account, namespace=facts.namespace, has_user_namespaces=namespaces)
    needed = (right for part in facts.grants for right in part.rights)
    return tuple(dict.fromkeys([*needed, *risky, ALL_PERMISSIONS]))


async def _read_all(reading: FactReader, namespace: str) -> None:
    wanted = [reading.read_kind(kind, paths) for kind, paths in _CLUSTER_PATHS.items()]
    wanted += [
        reading.read_kind(kind, [path.format(namespace) for path in paths]) for kind, paths in _NAMESPACED_PATHS.items()
    ]
    wanted.append(reading.read_named(ObjectKind.NAMESPACES, [namespace], path="/api/v1/namespaces"))
    wanted.append(
        reading.read_kind(ObjectKind.HUB_PODS, [f"/api/v1/namespaces/{namespace}/pods"], query=_HUB_PODS_QUERY)
    )
    await asyncio.gather(*wanted)


async def _read_more(reading: FactReader, namespace: str, *, requirements: ChartRequirements | None) -> None:
    """Read what is only known to matter once the rest was read."""
    for found in filter(is_device_plugin, reading.read.get(ObjectKind.DAEMON_SETS, ())):
        own = as_text(as_dict(found.get("metadata")).get("namespace"))
        labels = as_dict(as_dict(as_dict(found.get("spec")).get("selector")).get("matchLabels"))
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
        await reading.read_kind(ObjectKind.PLUGIN_PODS, [f"/api/v1/namespaces/{own}/pods"], query=query)
    if requirements is not None and requirements.pull_secrets:
        await reading.read_named(
            ObjectKind.SECRETS, requirements.pull_secrets, path=f"/api/v1/namespaces/{namespace}/secrets"
        )


def _find_hub_account(reading: FactReader, namespace: str, *, named: str) -> ServiceAccount | None:
    """Return the account that the hub runs as, None where there is no hub and the values name none."""
    pods = list_live_hub_pods(reading.read.get(ObjectKind.HUB_PODS, ()))
    running = as_text(as_dict(pods[0].get("spec")).get("serviceAccountName")) if pods else ""
    name = running or named or (DEFAULT_HUB_ACCOUNT if pods else "")
    return ServiceAccount(namespace, name) if name else None


def _load_shipped_roles() -> list[object]:
    text_of_roles = (data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text_of_roles))


def _choose_reducer(kind: ObjectKind) -> Any:
    """Return what takes of an object what matters: nodes are large, and there may be thousands."""
    return _reduce_node if kind is ObjectKind.NODES else lambda found: found


def _reduce_node(node: KubernetesObject) -> KubernetesObject:
    conditions = as_dict(node.get("status")).get("conditions")
    return {"metadata": {"name": get_object_name(node)}, "status": {"conditions": conditions}}


def _make_unreadable_error(message: str) -> ClusterError:
    return ClusterError(Problem(field="cluster", code="unreadable", message=message))
