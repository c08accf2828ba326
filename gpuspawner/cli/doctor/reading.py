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
from gpuspawner.cli.cluster.cluster import ClusterError
from gpuspawner.cli.cluster.grants import EVERYTHING, Account, Right, dangers, grants
from gpuspawner.cli.cluster.looking import Onlooker
from gpuspawner.cli.doctor.asking import NotServedError, allowed, kubernetes_version, listed, unanswered
from gpuspawner.cli.doctor.facts import Facts, Kind, Object, name_of
from gpuspawner.cli.doctor.hub_pods import living
from gpuspawner.cli.doctor.plugins import is_plugin
from gpuspawner.cli.values.chart import HUB_ACCOUNT, at
from gpuspawner.cli.values.wishes import Wishes, read_wishes
from gpuspawner.core.errors import Problem
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.kube.client.requests import APIUnavailableError

_HUB = {"labelSelector": "app=jupyterhub,component=hub"}

_CLUSTER_WIDE = {
    Kind.NODES: ("/api/v1/nodes",),
    Kind.DAEMON_SETS: ("/apis/apps/v1/daemonsets",),
    Kind.DEPLOYMENTS: ("/apis/apps/v1/deployments",),
    Kind.RUNTIME_CLASSES: ("/apis/node.k8s.io/v1/runtimeclasses",),
    Kind.PRIORITY_CLASSES: ("/apis/scheduling.k8s.io/v1/priorityclasses",),
    Kind.STORAGE_CLASSES: ("/apis/storage.k8s.io/v1/storageclasses",),
    Kind.DEVICE_CLASSES: ("/apis/resource.k8s.io/v1/deviceclasses",),
    Kind.NODE_POOLS: ("/apis/karpenter.sh/v1/nodepools",),
    Kind.QUEUE_PRIORITIES: tuple(
        f"/apis/kueue.x-k8s.io/{version}/workloadpriorityclasses" for version in ("v1beta2", "v1beta1")
    ),
}
"""Kind → paths, of which the first one that is served is read."""

_NAMESPACED = {
    Kind.QUOTAS: ("/api/v1/namespaces/{}/resourcequotas",),
    Kind.LIMIT_RANGES: ("/api/v1/namespaces/{}/limitranges",),
    Kind.LOCAL_QUEUES: tuple(
        f"/apis/kueue.x-k8s.io/{version}/namespaces/{{}}/localqueues" for version in ("v1beta2", "v1beta1")
    ),
}


class Reading:
    """What was read so far.

    :ivar unread: kinds that may not be read, or not now, with why.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.read: dict[Kind, tuple[Object, ...]] = {}
        self.unserved: set[Kind] = set()
        self.unread: dict[Kind, str] = {}

    async def take(self, kind: Kind, paths: Iterable[str], **options: Any) -> None:
        """Read a kind from the first path that is served."""
        for path in paths:
            try:
                found = await listed(self._client, path, **options)
            except NotServedError:
                continue
            except APIUnavailableError as error:
                self.unread[kind] = str(error)
            else:
                self.read[kind] = (*self.read.get(kind, ()), *map(_kept(kind), found))
            return
        self.unserved.add(kind)

    async def named(self, kind: Kind, names: Iterable[str], *, path: str) -> None:
        """Read which objects there are of some names, and nothing else of them."""
        self.read.setdefault(kind, ())
        for name in names:
            await self.take(kind, [path], query={"fieldSelector": f"metadata.name={name}"}, names_only=True)
        if kind in self.unread:
            del self.read[kind]


async def read_facts(onlooker: Onlooker, *, account: Account | None) -> tuple[Facts, Mapping[Kind, str]]:
    """Return all that rules look at, and what could not be read, with why.

    :param account: the hub's, None to find it.
    :raises ClusterError: the API server does not answer, or shows no nodes.
    """
    cluster, values = onlooker.cluster, onlooker.values.chart
    namespace = cluster.namespace
    try:
        version = await kubernetes_version(cluster.client)
    except APIUnavailableError as error:
        raise _blind(f"The API server does not answer: {error}.") from error
    reading = Reading(cluster.client)
    looked, *_ = await asyncio.gather(onlooker.look(), _take_all(reading, namespace))
    if looked.inventory.nodes is None:
        raise _blind(looked.inventory.reason)
    wishes = read_wishes(values, onlooker.config) if values else None
    await _take_more(reading, namespace, wishes=wishes)
    account = account or _account(reading, namespace, named=text(at(values, "hub.serviceAccount.name")))
    if account is not None:
        await reading.named(
            Kind.ACCOUNTS, [account.name], path=f"/api/v1/namespaces/{account.namespace}/serviceaccounts"
        )
    namespaces = wishes is not None and wishes.has_user_namespaces
    parts = (
        grants(_shipped(), account=account, namespace=namespace, has_user_namespaces=namespaces)
        if account is not None
        else ()
    )
    facts = Facts(
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
        wishes=wishes,
        account=account,
        grants=parts,
    )
    asked = _asked(facts)
    answers = await allowed(cluster.client, asked, account=account) if account is not None else {}
    if reason := unanswered(asked, answers):
        reading.unread[Kind.RIGHTS] = reason
    return replace(facts, allowed=answers), reading.unread


def _asked(facts: Facts) -> tuple[Right, ...]:
    """Return which rights of the hub to ask for: those it needs, and those that nobody should have."""
    if facts.account is None:
        return ()
    namespaces = facts.wishes is not None and facts.wishes.has_user_namespaces
    risky = dangers(facts.account, namespace=facts.namespace, has_user_namespaces=namespaces)
    needed = (right for part in facts.grants for right in part.rights)
    return tuple(dict.fromkeys([*needed, *risky, EVERYTHING]))


async def _take_all(reading: Reading, namespace: str) -> None:
    wanted = [reading.take(kind, paths) for kind, paths in _CLUSTER_WIDE.items()]
    wanted += [reading.take(kind, [path.format(namespace) for path in paths]) for kind, paths in _NAMESPACED.items()]
    wanted.append(reading.named(Kind.NAMESPACES, [namespace], path="/api/v1/namespaces"))
    wanted.append(reading.take(Kind.HUB_PODS, [f"/api/v1/namespaces/{namespace}/pods"], query=_HUB))
    await asyncio.gather(*wanted)


async def _take_more(reading: Reading, namespace: str, *, wishes: Wishes | None) -> None:
    """Read what is only known to matter once the rest was read."""
    for found in filter(is_plugin, reading.read.get(Kind.DAEMON_SETS, ())):
        own = text(mapping(found.get("metadata")).get("namespace"))
        labels = mapping(mapping(mapping(found.get("spec")).get("selector")).get("matchLabels"))
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
        await reading.take(Kind.PLUGIN_PODS, [f"/api/v1/namespaces/{own}/pods"], query=query)
    if wishes is not None and wishes.pull_secrets:
        await reading.named(Kind.SECRETS, wishes.pull_secrets, path=f"/api/v1/namespaces/{namespace}/secrets")


def _account(reading: Reading, namespace: str, *, named: str) -> Account | None:
    """Return the account that the hub runs as, None where there is no hub and the values name none."""
    pods = living(reading.read.get(Kind.HUB_PODS, ()))
    running = text(mapping(pods[0].get("spec")).get("serviceAccountName")) if pods else ""
    name = running or named or (HUB_ACCOUNT if pods else "")
    return Account(namespace, name) if name else None


def _shipped() -> list[object]:
    text_of_roles = (data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text_of_roles))


def _kept(kind: Kind) -> Any:
    """Return what takes of an object what matters: nodes are large, and there may be thousands."""
    return _bare_node if kind is Kind.NODES else lambda found: found


def _bare_node(node: Object) -> Object:
    conditions = mapping(node.get("status")).get("conditions")
    return {"metadata": {"name": name_of(node)}, "status": {"conditions": conditions}}


def _blind(message: str) -> ClusterError:
    return ClusterError(Problem(field="cluster", code="unreadable", message=message))
