"""The private names of JupyterHub, KubeSpawner and traitlets that gpuspawner reads or calls.

None of these projects promises to keep them, and no public name does the same, so an upgrade begins here. Besides, the
spawner overrides ``_expand_user_properties``, ``_start_reflector``, ``_start_watching_events``, ``_ensure_namespace``,
``_make_create_pvc_request`` and ``_make_create_pod_request`` of KubeSpawner and sets its ``_start_future``.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from types import SimpleNamespace
from typing import Any, Protocol, cast

import kubespawner.clients
from kubernetes_asyncio.client import CoreV1Api
from kubespawner import KubeSpawner
from traitlets import HasTraits

from gpuspawner.hub.spawner_protocol import WatchingSpawner


class _Spawner(Protocol):
    """The private names on a spawner; the functions below say what each is for."""

    # JupyterHub
    _log_name: str
    _spawn_future: asyncio.Future[Any] | None
    _spawn_pending: bool
    _start_pending: bool
    # KubeSpawner
    _start_future: asyncio.Future[Any] | None

    def _get_reflector_key(self, kind: str) -> tuple[str, str | None]: ...
    def _namespace_default(self) -> str: ...
    async def _start_watching_pods(self) -> object: ...

    # traitlets
    _trait_values: dict[str, Any]

    def _find_my_config(self, config: Any) -> Any: ...


def get_log_name(spawner: object) -> str:
    """Return the user's and the server's name as in JupyterHub's log, such as ``ada:lab``."""
    return cast("_Spawner", spawner)._log_name


def get_spawn_future(spawner: object) -> asyncio.Future[Any] | None:
    """Return JupyterHub's future of a start, which ends when the server answers or the start fails; None before it."""
    return cast("_Spawner", spawner)._spawn_future


def get_start_future(spawner: object) -> asyncio.Future[Any] | None:
    """Return the future of the spawner's last ``start()``; None before it and after ``clear_state()``."""
    return cast("_Spawner", spawner)._start_future


def is_starting(spawner: object) -> bool:
    """Return whether JupyterHub or KubeSpawner is still busy with a start; both reset this however the start ends.

    JupyterHub's public ``pending`` leaves out the time between the request of a start and its first step.
    """
    private = cast("_Spawner", spawner)
    start = private._start_future
    return bool(private._spawn_pending or private._start_pending or (start is not None and not start.done()))


def get_reflector_key(spawner: object, kind: str) -> tuple[str, str | None]:
    """Return the key of a spawner's reflector in ``KubeSpawner.reflectors``.

    :param kind: ``pods`` or ``events``.
    """
    return cast("_Spawner", spawner)._get_reflector_key(kind)


async def start_pods_reflector(spawner: object) -> None:
    """Start the reflector of pods, or wait for the first list of the one there is.

    KubeSpawner does this itself only when a server starts or is polled; a form needs the pods before that.

    :raises SystemExit: KubeSpawner watches all namespaces and its first list failed.
    """
    await cast("_Spawner", spawner)._start_watching_pods()


async def stop_reflectors(kind: type[WatchingSpawner]) -> None:
    """Stop all reflectors of a spawner class; KubeSpawner does so only in its tests.

    :param kind: the class that holds them.
    """
    await cast("Any", kind)._stop_all_reflectors()


def make_stand_in(spawner: WatchingSpawner, *, user_id: object) -> SimpleNamespace:
    """Return an object for :func:`expand_user_properties` that has the hub's settings and no user.

    The caller sets its ``user.name`` and ``name``.

    :param spawner: any spawner of the hub.
    :param user_id: the user's number, as templates are to format it.
    """
    private = cast("_Spawner", spawner)
    hub_namespace = private._namespace_default()  # reads a file
    return SimpleNamespace(
        user=SimpleNamespace(id=user_id),
        slug_scheme=spawner.slug_scheme,
        # As configured: on the spawner, the namespace of its user has taken the place of this one.
        namespace=private._find_my_config(spawner.config).get("namespace", hub_namespace),
        _namespace_default=lambda: hub_namespace,
    )


def expand_user_properties(stand_in: SimpleNamespace, template: str) -> str:
    """Return a template of KubeSpawner, such as ``jhub-{username}``, filled in for a user.

    :param stand_in: made by :func:`make_stand_in`.
    :param template: the text with fields in braces.
    """
    return str(KubeSpawner._expand_user_properties(stand_in, template))


def get_trait_values(spawner: object) -> dict[str, Any]:
    """Return traitlets' dict of the values of a spawner's traits, for a copy that shares no value with it."""
    return cast("_Spawner", spawner)._trait_values


def set_trait_values(spawner: object, values: dict[str, Any]) -> None:
    """Give a spawner a dict of trait values of its own, without validation and without calling observers."""
    cast("_Spawner", spawner)._trait_values = values


def validate_trait_value(trait: Any, value: object, *, owner: HasTraits) -> None:
    """Validate a value as traitlets does when it is assigned, without an attribute that it is assigned to.

    :param trait: a trait of any class.
    :param value: the value.
    :param owner: the object that the trait's validators get.
    :raises TraitError: the trait does not take the value; validators may raise anything else.
    """
    trait._validate(owner, value)


def get_client_cache() -> MutableMapping[tuple[object, ...], CoreV1Api]:
    """Return KubeSpawner's table of API clients, by event loop, class name and arguments.

    A client placed here is the one that KubeSpawner uses. Its traits (k8s_api_host, k8s_api_ssl_ca_cert,
    k8s_api_verify_ssl) name a server, but no credentials, context or account to impersonate.
    """
    cache: MutableMapping[tuple[object, ...], CoreV1Api] = kubespawner.clients._client_cache
    return cache
