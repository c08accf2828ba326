"""What was read of a cluster and of the settings, for the rules to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpuspawner.cli.cluster.shipped_roles import Permission, RoleGrant, ServiceAccount
from gpuspawner.cli.doctor.isolation_probe import ProbeResult
from gpuspawner.cli.values.chart_requirements import ChartRequirements
from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog

KubernetesObject = Mapping[str, object]
"""An object of Kubernetes, as the API server sends it."""


class ObjectKind(StrEnum):
    """What is read, by its plural."""

    NODES = "nodes"
    NAMESPACES = "namespaces"
    HUB_PODS = "pods of the hub"
    PLUGIN_PODS = "pods of device plugins"
    ACCOUNTS = "serviceaccounts"
    DAEMON_SETS = "daemonsets"
    DEPLOYMENTS = "deployments"
    RUNTIME_CLASSES = "runtimeclasses"
    PRIORITY_CLASSES = "priorityclasses"
    STORAGE_CLASSES = "storageclasses"
    DEVICE_CLASSES = "deviceclasses"
    QUOTAS = "resourcequotas"
    LIMIT_RANGES = "limitranges"
    SECRETS = "secrets"
    NODE_POOLS = "nodepools"
    LOCAL_QUEUES = "localqueues"
    QUEUE_PRIORITIES = "workloadpriorityclasses"
    RIGHTS = "rights of the hub"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All that rules look at.

    :param now: when it was read, with the time zone.
    :param version: of Kubernetes, major and minor; None where it was not understood.
    :param nodes: as the hub would see them, with what DRA drivers offer.
    :param read: what was read, by kind; a kind that could not be read is not there.
    :param unserved: kinds that the API server does not know.
    :param catalogue: what users could pick.
    :param tolerations: what every server tolerates.
    :param requirements: None without values.
    :param account: the hub's, None where no hub was found.
    :param grants: what the shipped roles allow, None as for ``account``.
    :param allowed: which rights the hub has; those that could not be asked for are not there.
    :param probe_results: what probe pods saw.
    """

    namespace: str
    now: datetime
    version: tuple[int, int] | None = None
    nodes: tuple[Node, ...] = ()
    read: Mapping[ObjectKind, tuple[KubernetesObject, ...]] = field(default_factory=dict)
    unserved: frozenset[ObjectKind] = frozenset()
    catalogue: Catalog
    configured: ConfiguredCatalog
    table: AcceleratorTable
    tolerations: tuple[Toleration, ...] = ()
    requirements: ChartRequirements | None = None
    account: ServiceAccount | None = None
    grants: tuple[RoleGrant, ...] = ()
    allowed: Mapping[Permission, bool] = field(default_factory=dict)
    probe_results: tuple[ProbeResult, ...] = ()

    def list_objects(self, kind: ObjectKind) -> tuple[KubernetesObject, ...]:
        """Return the objects of a kind, none where they could not be read."""
        return self.read.get(kind, ())

    def lacks(self, kind: ObjectKind, name: str) -> bool:
        """Tell whether there is surely no object of a kind with a name."""
        return kind in self.read and name not in map(get_object_name, self.read[kind])


def get_object_name(found: KubernetesObject) -> str:
    """Return the name of an object, empty where it has none."""
    metadata = found.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""
