"""What was read of a cluster and of the settings, for the rules to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpuspawner.cli.cluster.grants import Account, Grant, Right
from gpuspawner.cli.doctor.leaks import Sight
from gpuspawner.cli.values.wishes import Wishes
from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.catalogue import Catalogue
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.discovery.assemble import Configured

Object = Mapping[str, object]
"""An object of Kubernetes, as the API server sends it."""


class Kind(StrEnum):
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
class Facts:
    """All that rules look at.

    :param now: when it was read, with the time zone.
    :param version: of Kubernetes, major and minor; None where it was not understood.
    :param nodes: as the hub would see them, with what DRA drivers offer.
    :param read: what was read, by kind; a kind that could not be read is not there.
    :param unserved: kinds that the API server does not know.
    :param catalogue: what users could pick.
    :param tolerations: what every server tolerates.
    :param wishes: None without values.
    :param account: the hub's, None where no hub was found.
    :param grants: what the shipped roles allow, None as for ``account``.
    :param allowed: which rights the hub has; those that could not be asked for are not there.
    :param sights: what probe pods saw.
    """

    namespace: str
    now: datetime
    version: tuple[int, int] | None = None
    nodes: tuple[Node, ...] = ()
    read: Mapping[Kind, tuple[Object, ...]] = field(default_factory=dict)
    unserved: frozenset[Kind] = frozenset()
    catalogue: Catalogue
    configured: Configured
    table: AcceleratorTable
    tolerations: tuple[Toleration, ...] = ()
    wishes: Wishes | None = None
    account: Account | None = None
    grants: tuple[Grant, ...] = ()
    allowed: Mapping[Right, bool] = field(default_factory=dict)
    sights: tuple[Sight, ...] = ()

    def of(self, kind: Kind) -> tuple[Object, ...]:
        """Return the objects of a kind, none where they could not be read."""
        return self.read.get(kind, ())

    def lacks(self, kind: Kind, name: str) -> bool:
        """Tell whether there is surely no object of a kind with a name."""
        return kind in self.read and name not in map(name_of, self.read[kind])


def name_of(found: Object) -> str:
    """Return the name of an object, empty where it has none."""
    metadata = found.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""
