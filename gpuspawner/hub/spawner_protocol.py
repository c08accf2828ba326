"""What the spawner's parts need of a spawner, each part as little as it can.

A part's functions take one of these protocols, so that their signatures say what they read, and tests can pass a small
object. :class:`gpuspawner.hub.spawner.GPUSpawner` fulfills all of them. Protocols that name an offer or the state of a
start stand in the rooms that define those.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, ClassVar, Protocol

from gpuspawner.hub.trait_overrides import TraitOverrides


class HubUser(Protocol):
    """JupyterHub's user.

    :ivar groups: JupyterHub's groups, from its database.
    :ivar settings: those of the hub's web application, shared by all users.
    """

    name: str
    escaped_name: str
    groups: Iterable[Any]
    settings: MutableMapping[str, Any]


class UserServer(Protocol):
    """One server of a user, as JupyterHub knows it.

    :ivar name: empty for the user's default server.
    :ivar hub: JupyterHub's :class:`~jupyterhub.objects.Hub`, of which ``base_url`` is used.
    """

    name: str
    user: HubUser
    hub: Any
    log: logging.Logger


class PodReflector(Protocol):
    """KubeSpawner's watch of pods.

    :ivar pods: as the API server sends them, by ``namespace/name``.
    :ivar first_load_future: done when the first list was read or failed.
    """

    pods: Mapping[str, Mapping[str, Any]]
    first_load_future: asyncio.Future[None] | None


class PodWatchingSpawner(Protocol):
    """A server's pod, as KubeSpawner's watch knows it.

    :ivar pod_reflector: None before KubeSpawner watches pods.
    """

    namespace: str
    pod_name: str
    pod_reflector: PodReflector | None


class WatchingSpawner(UserServer, PodWatchingSpawner, Protocol):
    """KubeSpawner's watches, and the settings that say which namespaces they cover.

    :ivar reflectors: KubeSpawner's, by kind and namespace; the namespace is None for a watch of all.
    """

    reflectors: ClassVar[MutableMapping[tuple[str, str | None], Any]]
    config: Any
    slug_scheme: str
    enable_user_namespaces: bool
    user_namespace_template: str


class AdmittedSpawner(WatchingSpawner, Protocol):
    """The server and the user that admission checks a choice for.

    :ivar active: whether the server runs or starts.
    :ivar capacity_timeout: seconds to wait for the cluster.
    :ivar db: a SQLAlchemy session of JupyterHub's database, None without a hub.
    """

    active: bool
    capacity_timeout: float
    db: Any
    trait_overrides: TraitOverrides


class PodBuildingSpawner(PodWatchingSpawner, Protocol):
    """The admin's traits, and the pod that KubeSpawner makes of them.

    :ivar api: a :class:`kubernetes_asyncio.client.CoreV1Api`.
    """

    api: Any
    trait_overrides: TraitOverrides
    get_env: Callable[[], dict[str, Any]]

    async def get_pod_manifest(self) -> Any:
        """Return the client's model of the pod."""
