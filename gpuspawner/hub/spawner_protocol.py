"""Typing protocols of a spawner and its parts: KubeSpawner and JupyterHub have no type information.

:class:`gpuspawner.hub.spawner.GPUSpawner` implements :class:`HubSpawner`. The room ``start`` adds what it needs in
:class:`gpuspawner.hub.start.state.StartingSpawner`. Tests may pass a small object with what a function uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol

from gpuspawner.hub.trait_overrides import TraitOverrides


class HubUser(Protocol):
    """A user of JupyterHub, as :class:`jupyterhub.user.User` represents it.

    :ivar settings: the settings of the hub's web application, shared by all users.
    """

    name: str
    escaped_name: str
    groups: Iterable[Any]
    settings: MutableMapping[str, Any]

    async def stop(self, server_name: str) -> None:
        """Have JupyterHub stop one of the user's servers and clean up after it."""


class ServerRow(Protocol):
    """A server's row in the hub's database, a :class:`jupyterhub.orm.Spawner`.

    :ivar server: the row of the server's address; None while the server neither runs nor starts.
    :ivar started: when the last start began, in UTC without a time zone.
    :ivar state: the spawner's state, as JSON.
    """

    server: Any
    started: datetime | None
    state: Mapping[str, object] | None


class PodReflector(Protocol):
    """KubeSpawner's reflector of pods, which lists and watches them.

    :ivar pods: JSON of the pods, as the API server sends them, by ``namespace/name``.
    :ivar first_load_future: future that is done when the reflector has read its first list, or failed to read it.
    """

    pods: Mapping[str, Mapping[str, Any]]
    first_load_future: asyncio.Future[None] | None


class HubSpawner(Protocol):
    """What gpuspawner uses of the spawner of one server of a user: attributes of JupyterHub, KubeSpawner and its own.

    KubeSpawner 7.0 lacks ``slow_spawn_message``; KubeSpawner 7.0 and 7.1 lack ``decorate_progress_message`` and
    ``event_formatter_class``. Check with :meth:`has_trait` before reading one of them.

    JupyterHub:

    :ivar name: name of the server; empty for the user's default server.
    :ivar hub: JupyterHub's :class:`~jupyterhub.objects.Hub`; gpuspawner uses its ``base_url``.
    :ivar orm_spawner: the server's row in the hub's database, None outside a hub.
    :ivar db: a SQLAlchemy session of JupyterHub's database; None without a hub.
    :ivar http_timeout: seconds that JupyterHub waits for the server's first answer once its pod runs.
    :ivar group_overrides: the admin's trait values for groups of users, a dict or a function that returns a dict.
    :ivar internal_ssl: whether the hub and the server use certificates; the pod gets its certificate from a Secret.

    KubeSpawner:

    :ivar api: a :class:`kubernetes_asyncio.client.CoreV1Api`.
    :ivar reflectors: KubeSpawner's reflectors, by kind and namespace; the namespace None means all namespaces.
    :ivar event_reflector: KubeSpawner's reflector of events; None if KubeSpawner does not watch events.
    :ivar enable_user_namespaces: whether each user has a namespace, which a start creates if it is missing.
    :ivar pvc_name: name of the volume claim that KubeSpawner creates if ``storage_pvc_ensure`` is set.
    :ivar storage_class: name of this claim's StorageClass; None for the cluster's default class.
    :ivar services_enabled: whether the hub reaches the pod through a Service; with ``internal_ssl``, it always does.
    :ivar get_pod_manifest: returns the pod as a model of the Kubernetes client.
    :ivar after_pod_created_hook: the admin's hook, which gets the spawner and the pod; None without a hook.
    :ivar k8s_api_request_retry_timeout: seconds for which KubeSpawner repeats a request that times out.

    gpuspawner:

    :ivar links: whether a link to a choice starts a server at once or asks first.
    :ivar start_state: the :class:`~gpuspawner.hub.start.state.StartState` of the last start.
    """

    name: str
    user: HubUser
    hub: Any
    log: Any
    config: Any
    authenticator: Any
    orm_spawner: ServerRow | None
    server: Any
    db: Any
    active: bool
    user_options: Mapping[str, object]
    start_timeout: float
    http_timeout: float
    group_overrides: Any
    internal_ssl: bool
    cert_paths: Mapping[str, str]
    create_certs: Callable[[], Any]
    move_certs: Callable[[Any], Any]
    get_env: Callable[[], dict[str, Any]]
    get_args: Callable[[], list[str]]

    api: Any
    namespace: str
    pod_name: str
    secret_name: str
    pvc_name: str
    storage_pvc_ensure: bool
    storage_class: str | None
    services_enabled: bool
    slug_scheme: str
    enable_user_namespaces: bool
    user_namespace_template: str
    reflectors: ClassVar[MutableMapping[tuple[str, str | None], Any]]
    pod_reflector: PodReflector | None
    event_reflector: Any
    events_enabled: bool
    slow_spawn_message: str
    decorate_progress_message: Callable[..., Any] | None
    event_formatter_class: Callable[..., Any]
    get_pod_manifest: Callable[[], Awaitable[Any]]
    get_secret_manifest: Callable[[Any], Any]
    get_service_manifest: Callable[..., Any]
    modify_pod_hook: Callable[[Any, Any], Any] | None
    after_pod_created_hook: Callable[[Any, Any], Any] | None
    k8s_api_request_timeout: float
    k8s_api_request_retry_timeout: float

    extra_options: Sequence[str]
    links: str
    dry_run: bool
    trait_overrides: TraitOverrides
    start_state: Any

    @property
    def starts_profile(self) -> bool:
        """Whether the user options are KubeSpawner's, not those of gpuspawner's fields."""

    @property
    def has_open_start(self) -> bool:
        """Whether a start was cancelled or has failed, and JupyterHub has not stopped the server since."""

    async def apply_group_overrides(self) -> None:
        """Set traits to the values in ``group_overrides`` for the user's groups, as JupyterHub does before a start."""

    def get_state(self) -> dict[str, Any]:
        """Return the spawner's state, which JupyterHub stores in its database."""

    def has_trait(self, name: str) -> bool:
        """Return whether the spawner has a trait."""

    def trait_defaults(self, name: str) -> Any:
        """Return the default value of a trait."""

    def is_pod_running(self, pod: Mapping[str, Any] | None) -> bool:
        """Return whether the pod runs. KubeSpawner's ``start()`` waits until the result is True."""

    def start_polling(self) -> None:
        """Have JupyterHub poll the server at intervals."""

    def add_poll_callback(self, callback: Any, *args: Any) -> None:
        """Have JupyterHub call a function or coroutine function when a poll finds that the server has ended."""

    async def stop(self, now: bool = False) -> None:
        """Stop the server; with ``now``, delete the pod without a grace period."""
