"""Facts about a cluster and the settings, which the rules of ``doctor`` examine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpuspawner.cli.cluster.shipped_roles import Permission, RoleGrant, ServiceAccount
from gpuspawner.cli.doctor.isolation_probe import ProbeResult
from gpuspawner.cli.values.chart_config import ChartRequirements
from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.decode_selectors import decode_selector
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.cluster.selectors import selects_labels
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.json_access import as_dict, as_dicts, as_text, as_text_map, as_texts

KubernetesObject = Mapping[str, object]
"""A Kubernetes object as the API server sends it in JSON."""


SERVICE_NAME_LABEL = "kubernetes.io/service-name"
"""Label of an EndpointSlice; the value is the name of its service."""
_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


class ObjectKind(StrEnum):
    """Kinds of objects that ``doctor`` reads."""

    NODES = "nodes"
    NAMESPACES = "namespaces"
    HUB_PODS = "pods of the hub"
    PODS = "pods of the namespace"
    FAILURE_EVENTS = "events of the namespace"
    PLUGIN_PODS = "pods of device plugins"
    ACCOUNTS = "serviceaccounts"
    DAEMON_SETS = "daemonsets"
    DEPLOYMENTS = "deployments"
    AUTOSCALER_STATUS = "status of the cluster-autoscaler"
    AUTOSCALER_EVENTS = "events of the cluster-autoscaler"
    RUNTIME_CLASSES = "runtimeclasses"
    PRIORITY_CLASSES = "priorityclasses"
    STORAGE_CLASSES = "storageclasses"
    DEVICE_CLASSES = "deviceclasses"
    RESOURCE_SLICES = "resourceslices"
    QUOTAS = "resourcequotas"
    LIMIT_RANGES = "limitranges"
    SECRETS = "secrets"
    NODE_POOLS = "nodepools"
    LOCAL_QUEUES = "localqueues"
    CLUSTER_QUEUES = "clusterqueues"
    QUEUE_FLAVORS = "resourceflavors"
    QUEUE_PRIORITIES = "workloadpriorityclasses"
    MUTATING_WEBHOOKS = "mutatingwebhookconfigurations"
    VALIDATING_WEBHOOKS = "validatingwebhookconfigurations"
    ENDPOINT_SLICES = "endpointslices of webhooks"
    LEASES = "leases"
    RIGHTS = "rights of the hub"


KUEUE_KINDS = (
    ObjectKind.CLUSTER_QUEUES,
    ObjectKind.QUEUE_FLAVORS,
    ObjectKind.QUEUE_PRIORITIES,
)
"""Cluster-scoped kinds of Kueue's objects."""
WEBHOOK_KINDS = (ObjectKind.MUTATING_WEBHOOKS, ObjectKind.VALIDATING_WEBHOOKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The state of a cluster at one moment, and the settings.

    :param namespace: namespace of the servers.
    :param now: time of reading, with time zone.
    :param version: major and minor version of Kubernetes, None if unknown.
    :param nodes: the nodes as the hub sees them, with devices of DRA drivers.
    :param read: objects by kind, without kinds that ``doctor`` cannot read.
    :param unserved: kinds that the API server does not serve.
    :param catalog: GPU types and images that users can choose.
    :param configured: GPU types, images, presets and limits that the settings describe.
    :param table: the known GPU models, and the label values that name each model.
    :param tolerations: the tolerations of every server, without those that a GPU type adds.
    :param requirements: objects and rights that the admin's Helm values require; None without values files.
    :param account: the hub's ServiceAccount, None if unknown.
    :param grants: the roles of ``helm-values/rbac.yaml``, which the hub should have; empty if ``account`` is None.
    :param allowed: right → whether the hub has it; without rights for which the API server gave no answer.
    :param probe_results: one result for each container of the probe pods, with the GPUs that the container saw without
        requesting them; empty without ``--probe``.
    """

    namespace: str
    now: datetime
    version: tuple[int, int] | None = None
    nodes: tuple[Node, ...] = ()
    read: Mapping[ObjectKind, tuple[KubernetesObject, ...]] = field(default_factory=dict)
    unserved: frozenset[ObjectKind] = frozenset()
    catalog: Catalog
    configured: ConfiguredCatalog
    table: AcceleratorTable
    tolerations: tuple[Toleration, ...] = ()
    requirements: ChartRequirements | None = None
    account: ServiceAccount | None = None
    grants: tuple[RoleGrant, ...] = ()
    allowed: Mapping[Permission, bool] = field(default_factory=dict)
    probe_results: tuple[ProbeResult, ...] = ()

    def list_objects(self, kind: ObjectKind) -> tuple[KubernetesObject, ...]:
        """Return the objects of a kind, or () if ``doctor`` cannot read them."""
        return self.read.get(kind, ())

    def lacks(self, kind: ObjectKind, name: str) -> bool:
        """Return whether the cluster has no object with this kind and name.

        If ``doctor`` cannot read objects of the kind, the result is False.
        """
        return kind in self.read and name not in map(get_object_name, self.read[kind])


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWebhook:
    """An admission webhook that the API server must reach to create a pod in the servers' namespace.

    :param name: name of the webhook.
    :param configuration: name of the Mutating- or ValidatingWebhookConfiguration that contains the webhook.
    :param service: namespace and name of the Service to which the API server sends the webhook's requests.
    :param object_selector: selector of the pods for which the API server calls the webhook; empty for all.
    """

    name: str
    configuration: str
    service: tuple[str, str]
    object_selector: KubernetesObject


def list_pod_webhooks(read: Mapping[ObjectKind, tuple[KubernetesObject, ...]], namespace: str) -> list[PodWebhook]:
    """Return the admission webhooks that the API server must reach to create a pod in a namespace."""
    labels = {_NAMESPACE_NAME_LABEL: namespace}
    for found in read.get(ObjectKind.NAMESPACES, ()):
        labels |= as_text_map(as_dict(found.get("metadata")).get("labels"))
    return [
        PodWebhook(
            name=as_text(webhook.get("name")),
            configuration=get_object_name(configuration),
            service=(as_text(service.get("namespace")), as_text(service.get("name"))),
            object_selector=as_dict(webhook.get("objectSelector")),
        )
        for kind in WEBHOOK_KINDS
        for configuration in read.get(kind, ())
        for webhook in as_dicts(configuration.get("webhooks"))
        if (service := as_dict(as_dict(webhook.get("clientConfig")).get("service")))
        and webhook.get("failurePolicy") != "Ignore"
        and not webhook.get("matchConditions")  # skip webhooks with a condition in CEL: doctor cannot evaluate it
        and any(_is_about_new_pods(rule) for rule in as_dicts(webhook.get("rules")))
        and selects_labels(decode_selector(as_dict(webhook.get("namespaceSelector"))), labels)
    ]


def _is_about_new_pods(rule: KubernetesObject) -> bool:
    return all(
        not {"*", wanted}.isdisjoint(as_texts(rule.get(key)))
        for key, wanted in (("apiGroups", ""), ("operations", "CREATE"), ("resources", "pods"))
    )


def get_object_name(found: KubernetesObject) -> str:
    """Return the name of an object, or "" if it has none."""
    metadata = found.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""
