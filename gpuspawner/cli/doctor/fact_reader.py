"""Reads the facts that the rules of ``doctor`` examine, and lists the kinds of objects that ``doctor`` cannot read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

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
from gpuspawner.cli.doctor.facts import (
    KUEUE_KINDS,
    SERVICE_NAME_LABEL,
    WEBHOOK_KINDS,
    ClusterFacts,
    KubernetesObject,
    ObjectKind,
    get_object_name,
    list_pod_webhooks,
)
from gpuspawner.cli.doctor.node_health import is_device_plugin
from gpuspawner.cli.doctor.pod_health import list_live_hub_pods
from gpuspawner.cli.values.chart_config import (
    DEFAULT_HUB_ACCOUNT,
    ChartRequirements,
    get_chart_value,
    read_chart_requirements,
)
from gpuspawner.core.errors import Problem
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.kube.client.api_requests import APIUnavailableError

_EVENTS = "/api/v1/namespaces/{}/events"
_PODS = "/api/v1/namespaces/{}/pods"


class _Source(NamedTuple):
    """Where the API server has the objects of a kind; ``{}`` stands for the servers' namespace.

    :param paths: paths of lists in the API; the reader uses the first one that the API server serves.
    :param query: selector of the wanted objects.
    :param names_only: request only the objects' metadata.
    """

    paths: tuple[str, ...]
    query: tuple[str, str] | None = None
    names_only: bool = False


def _list_kueue_paths(resource: str) -> tuple[str, ...]:
    return tuple(f"/apis/kueue.x-k8s.io/{version}/{resource}" for version in ("v1beta2", "v1beta1"))


_SOURCES: Mapping[ObjectKind, _Source] = {
    ObjectKind.NODES: _Source(("/api/v1/nodes",)),
    ObjectKind.DAEMON_SETS: _Source(("/apis/apps/v1/daemonsets",)),
    ObjectKind.DEPLOYMENTS: _Source(("/apis/apps/v1/deployments",)),
    ObjectKind.RUNTIME_CLASSES: _Source(("/apis/node.k8s.io/v1/runtimeclasses",)),
    ObjectKind.PRIORITY_CLASSES: _Source(("/apis/scheduling.k8s.io/v1/priorityclasses",)),
    ObjectKind.STORAGE_CLASSES: _Source(("/apis/storage.k8s.io/v1/storageclasses",)),
    ObjectKind.DEVICE_CLASSES: _Source(("/apis/resource.k8s.io/v1/deviceclasses",)),
    ObjectKind.RESOURCE_SLICES: _Source(("/apis/resource.k8s.io/v1/resourceslices",)),
    ObjectKind.NODE_POOLS: _Source(("/apis/karpenter.sh/v1/nodepools",)),
    **{kind: _Source((f"/apis/admissionregistration.k8s.io/v1/{kind}",)) for kind in WEBHOOK_KINDS},
    **{kind: _Source(_list_kueue_paths(kind)) for kind in KUEUE_KINDS},
    ObjectKind.LOCAL_QUEUES: _Source(_list_kueue_paths("namespaces/{}/localqueues")),
    ObjectKind.QUOTAS: _Source(("/api/v1/namespaces/{}/resourcequotas",)),
    ObjectKind.LIMIT_RANGES: _Source(("/api/v1/namespaces/{}/limitranges",)),
    ObjectKind.NAMESPACES: _Source(("/api/v1/namespaces",), ("fieldSelector", "metadata.name={}"), names_only=True),
    ObjectKind.PODS: _Source((_PODS,)),
    ObjectKind.HUB_PODS: _Source((_PODS,), ("labelSelector", "app=jupyterhub,component=hub")),
    # Kubelet's events about containers that it cannot start, and about images that it cannot pull.
    ObjectKind.FAILURE_EVENTS: _Source((_EVENTS,), ("fieldSelector", "reason=Failed")),
    ObjectKind.AUTOSCALER_EVENTS: _Source((_EVENTS,), ("fieldSelector", "source=cluster-autoscaler"), names_only=True),
    # The ConfigMap in which the cluster-autoscaler writes its status, also if it runs outside the cluster
    # (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).
    ObjectKind.AUTOSCALER_STATUS: _Source(
        ("/api/v1/namespaces/kube-system/configmaps",), ("fieldSelector", "metadata.name=cluster-autoscaler-status")
    ),
    # The Leases of schedulers; kube-node-lease has a Lease for each node.
    ObjectKind.LEASES: _Source(
        ("/apis/coordination.k8s.io/v1/leases",), ("fieldSelector", "metadata.namespace!=kube-node-lease")
    ),
}


class FactReader:
    """Reads objects from the API server and collects them by kind.

    :ivar read: kind of object → all objects of the kind that were read.
    :ivar unserved: kinds that the API server does not serve.
    :ivar unread: kind that cannot be read → reason.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.read: dict[ObjectKind, tuple[KubernetesObject, ...]] = {}
        self.unserved: set[ObjectKind] = set()
        self.unread: dict[ObjectKind, str] = {}

    async def read_kind(self, kind: ObjectKind, paths: Iterable[str], **options: Any) -> None:
        """Read all objects of a kind from the first path that the API server serves, and add the objects to ``read``.

        If the API server serves none of the paths, add the kind to ``unserved``. If a request fails for another reason,
        add the kind and the reason to ``unread``.
        """
        for path in paths:
            try:
                found = await fetch_objects(self._client, path, **options)
            except NotServedError:
                continue
            except APIUnavailableError as error:
                self.unread[kind] = str(error)
            else:
                reduced = map(_reduce_node, found) if kind is ObjectKind.NODES else found
                self.read[kind] = (*self.read.get(kind, ()), *reduced)
            return
        self.unserved.add(kind)

    async def read_named(self, kind: ObjectKind, names: Iterable[str], *, path: str) -> None:
        """Read the metadata of the objects with the given names, and add them to ``read``.

        If a request fails, ``read`` contains no object of the kind, and ``unread`` has the reason.
        """
        self.read.setdefault(kind, ())
        for name in names:
            await self.read_kind(kind, [path], query={"fieldSelector": f"metadata.name={name}"}, names_only=True)
        if kind in self.unread:
            del self.read[kind]


async def read_facts(
    viewer: ClusterViewer, *, account: ServiceAccount | None
) -> tuple[ClusterFacts, Mapping[ObjectKind, str]]:
    """Return the facts about a cluster, and a mapping: kind of object → why ``doctor`` cannot read such objects.

    :param account: the hub's ServiceAccount; None = that of the hub's pod or, without a pod, of the Helm values.
    :raises ClusterError: the API server does not answer, or nodes cannot be read.
    """
    cluster, values = viewer.cluster, viewer.values.chart
    namespace = cluster.namespace
    try:
        version = await fetch_kubernetes_version(cluster.client)
    except APIUnavailableError as error:
        raise _make_unreadable_error(f"The API server does not answer: {error}.") from error
    reader = FactReader(cluster.client)
    view, *_ = await asyncio.gather(viewer.read_view(), _read_all(reader, namespace))
    if view.inventory.nodes is None:
        raise _make_unreadable_error(view.inventory.reason)
    requirements = read_chart_requirements(values, viewer.config) if values else None
    await _read_more(reader, namespace, requirements=requirements)
    account = account or _find_hub_account(
        reader, namespace, named=as_text(get_chart_value(values, "hub.serviceAccount.name"))
    )
    if account is not None:
        await reader.read_named(
            ObjectKind.ACCOUNTS, [account.name], path=f"/api/v1/namespaces/{account.namespace}/serviceaccounts"
        )
    has_user_namespaces = requirements is not None and requirements.has_user_namespaces
    grants = _list_grants(account, namespace, has_user_namespaces=has_user_namespaces)
    facts = ClusterFacts(
        namespace=namespace,
        now=datetime.now(UTC),
        version=version,
        nodes=view.inventory.nodes,
        read=reader.read,
        unserved=frozenset(reader.unserved),
        catalog=view.catalog,
        configured=view.settings.configured,
        table=view.settings.table,
        tolerations=view.tolerations,
        requirements=requirements,
        account=account,
        grants=grants,
    )
    permissions = _list_permissions_to_check(facts)
    answers = await check_permissions(cluster.client, permissions, account=account) if account is not None else {}
    if reason := describe_unanswered(permissions, answers):
        reader.unread[ObjectKind.RIGHTS] = reason
    return replace(facts, allowed=answers), reader.unread


def _list_grants(account: ServiceAccount | None, namespace: str, *, has_user_namespaces: bool) -> tuple[RoleGrant, ...]:
    if account is None:
        return ()
    documents = yaml.safe_load_all((data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8"))
    return build_role_grants(documents, account=account, namespace=namespace, has_user_namespaces=has_user_namespaces)


def _list_permissions_to_check(facts: ClusterFacts) -> tuple[Permission, ...]:
    if facts.account is None:
        return ()
    namespaces = facts.requirements is not None and facts.requirements.has_user_namespaces
    dangerous = list_dangerous_permissions(facts.account, namespace=facts.namespace, has_user_namespaces=namespaces)
    needed = (right for part in facts.grants for right in part.rights)
    return tuple(dict.fromkeys([*needed, *dangerous, ALL_PERMISSIONS]))


async def _read_all(reader: FactReader, namespace: str) -> None:
    requests = []
    for kind, source in _SOURCES.items():
        paths = [path.format(namespace) for path in source.paths]
        query = {source.query[0]: source.query[1].format(namespace)} if source.query else None
        requests.append(reader.read_kind(kind, paths, query=query, names_only=source.names_only))
    await asyncio.gather(*requests)


async def _read_more(reader: FactReader, namespace: str, *, requirements: ChartRequirements | None) -> None:
    for owner, service in dict.fromkeys(webhook.service for webhook in list_pod_webhooks(reader.read, namespace)):
        path = f"/apis/discovery.k8s.io/v1/namespaces/{owner}/endpointslices"
        query = {"labelSelector": f"{SERVICE_NAME_LABEL}={service}"}
        await reader.read_kind(ObjectKind.ENDPOINT_SLICES, [path], query=query)
    for found in filter(is_device_plugin, reader.read.get(ObjectKind.DAEMON_SETS, ())):
        own = as_text(as_dict(found.get("metadata")).get("namespace"))
        labels = as_dict(as_dict(as_dict(found.get("spec")).get("selector")).get("matchLabels"))
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
        await reader.read_kind(ObjectKind.PLUGIN_PODS, [f"/api/v1/namespaces/{own}/pods"], query=query)
    if requirements is not None and requirements.pull_secrets:
        await reader.read_named(
            ObjectKind.SECRETS, requirements.pull_secrets, path=f"/api/v1/namespaces/{namespace}/secrets"
        )


def _find_hub_account(reader: FactReader, namespace: str, *, named: str) -> ServiceAccount | None:
    pods = list_live_hub_pods(reader.read.get(ObjectKind.HUB_PODS, ()))
    running = as_text(as_dict(pods[0].get("spec")).get("serviceAccountName")) if pods else ""
    name = running or named or (DEFAULT_HUB_ACCOUNT if pods else "")
    return ServiceAccount(namespace, name) if name else None


def _reduce_node(node: KubernetesObject) -> KubernetesObject:
    """Return a node with only its name and conditions, to save memory: a cluster may have thousands of large nodes."""
    conditions = as_dict(node.get("status")).get("conditions")
    return {"metadata": {"name": get_object_name(node)}, "status": {"conditions": conditions}}


def _make_unreadable_error(message: str) -> ClusterError:
    return ClusterError(Problem(field="cluster", code="unreadable", message=message))
