"""Typing protocols that describe spawners and their parts; each contains only the attributes that some functions use.

If a function declares its spawner parameter with one of these protocols, the signature says which attributes of the
spawner the function uses, and tests can pass a small object. :class:`gpuspawner.hub.spawner.GPUSpawner` implements each
protocol of a spawner. Protocols that refer to an :class:`~gpuspawner.hub.config.offer.Offer` (what users can choose)
or to the state of a start are defined in the packages that use them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol

from gpuspawner.hub.trait_overrides import TraitOverrides


class HubUser(Protocol):
    """A user of JupyterHub, as :class:`jupyterhub.user.User` represents it.

    :ivar groups: the user's groups in JupyterHub's database.
    :ivar settings: the settings of the hub's web application, shared by all users.
    """

    name: str
    escaped_name: str
    groups: Iterable[Any]
    settings: MutableMapping[str, Any]

    async def stop(self, server_name: str) -> None:
        """Have JupyterHub stop one of the user's servers and clean up after it.

        :param server_name: name of the server; empty for the default server.
        """


class ServerRow(Protocol):
    """A server's row in the hub's database, a :class:`jupyterhub.orm.Spawner`.

    :ivar server: the row of the server's address; None while the server neither runs nor starts.
    :ivar started: when the last start began, in UTC without a time zone.
    :ivar state: the spawner's state, as JSON.
    """

    server: Any
    started: datetime | None
    state: Mapping[str, object] | None


class UserServer(Protocol):
    """One server of a user, as JupyterHub knows it.

    :ivar name: name of the server; empty for the user's default server.
    :ivar hub: JupyterHub's :class:`~jupyterhub.objects.Hub`; gpuspawner uses its ``base_url``.
    """

    name: str
    user: HubUser
    hub: Any
    log: logging.Logger


class PodReflector(Protocol):
    """KubeSpawner's reflector of pods, which lists and watches them.

    :ivar pods: JSON of the pods, as the API server sends them, by ``namespace/name``.
    :ivar first_load_future: future that is done when the reflector has read its first list, or failed to read it.
    """

    pods: Mapping[str, Mapping[str, Any]]
    first_load_future: asyncio.Future[None] | None


class PodWatchingSpawner(Protocol):
    """A spawner with the attributes that identify its server's pod in KubeSpawner's reflector.

    :ivar pod_reflector: the reflector of pods; None before KubeSpawner watches pods.
    """

    namespace: str
    pod_name: str
    pod_reflector: PodReflector | None


class WatchingSpawner(UserServer, PodWatchingSpawner, Protocol):
    """A spawner with KubeSpawner's reflectors, and with the settings on which the reflectors' namespaces depend.

    :ivar reflectors: KubeSpawner's reflectors, by kind and namespace; the namespace None means all namespaces.
    :ivar event_reflector: KubeSpawner's reflector of events; None if KubeSpawner does not watch events.
    """

    @property
    def has_open_start(self) -> bool:
        """Whether a start was cancelled or has failed, and JupyterHub has not stopped the server since."""

    reflectors: ClassVar[MutableMapping[tuple[str, str | None], Any]]
    event_reflector: Any
    config: Any
    slug_scheme: str
    enable_user_namespaces: bool
    user_namespace_template: str


class AdmittedSpawner(WatchingSpawner, Protocol):
    """The attributes of a spawner that the hub needs to check the spawner's user options.

    :ivar active: whether the server is running or starting.
    :ivar extra_options: names of user options that the admin has added.
    :ivar db: a SQLAlchemy session of JupyterHub's database; None without a hub.
    """

    active: bool
    extra_options: Sequence[str]
    db: Any


class PodBuildingSpawner(PodWatchingSpawner, Protocol):
    """A spawner that can build a pod manifest from the admin's traits.

    :ivar api: a :class:`kubernetes_asyncio.client.CoreV1Api`.
    :ivar pvc_name: name of the volume claim that KubeSpawner creates if ``storage_pvc_ensure`` is set.
    :ivar storage_class: name of this claim's StorageClass; None for the cluster's default class.
    :ivar group_overrides: the admin's trait values for groups of users, a dict or a function that returns a dict.
    :ivar enable_user_namespaces: whether each user has a namespace, which a start creates if it is missing.
    :ivar get_pod_manifest: returns the pod as a model of the Kubernetes client.
    :ivar links: whether a link to a choice starts a server at once or asks first.
    """

    api: Any
    log: Any
    links: str
    pvc_name: str
    storage_pvc_ensure: bool
    storage_class: str | None
    group_overrides: Any
    enable_user_namespaces: bool
    trait_overrides: TraitOverrides
    get_env: Callable[[], dict[str, Any]]
    get_args: Callable[[], list[str]]
    get_pod_manifest: Callable[[], Awaitable[Any]]

    async def apply_group_overrides(self) -> None:
        """Set traits to the values in ``group_overrides`` for the user's groups, as JupyterHub does before a start."""
