"""The private names of JupyterHub, KubeSpawner and traitlets that gpuspawner reads or calls.

A new version of these projects may change private names, so check this module at each upgrade. Public names do not
suffice. In addition, :class:`gpuspawner.hub.spawner.GPUSpawner` sets KubeSpawner's ``_start_future`` and
``_pvc_exists``, and overrides ``_expand_user_properties``, ``_start_reflector``, ``_start_watching_events``,
``_ensure_namespace``, ``_make_create_pvc_request`` and ``_make_create_pod_request``.
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
    """The private attributes and methods of a spawner that the functions below use."""

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
    """Return the names of user and server as JupyterHub logs them, such as ``ada:lab``."""
    return cast("_Spawner", spawner)._log_name


def get_spawn_future(spawner: object) -> asyncio.Future[Any] | None:
    """Return the future that JupyterHub completes when the server answers or the start fails; None before a start."""
    return cast("_Spawner", spawner)._spawn_future


def set_spawn_future(spawner: object, future: asyncio.Future[Any]) -> None:
    """Give a spawner JupyterHub's future of a start that has failed, whose exception JupyterHub's pages show.

    :param spawner: the server's.
    :param future: of an earlier spawner of the server.
    """
    cast("_Spawner", spawner)._spawn_future = future


def get_start_future(spawner: object) -> asyncio.Future[Any] | None:
    """Return the future that the last ``start()`` returned, or None before a start and after ``clear_state()``."""
    return cast("_Spawner", spawner)._start_future


def is_starting(spawner: object) -> bool:
    """Return whether a start of the spawner is in progress in JupyterHub or KubeSpawner.

    JupyterHub's public ``pending`` is not set between the request for a start and the start's first step.
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
    """Start the reflector of pods, or wait for the first list of a running reflector.

    KubeSpawner does this itself only when a server starts or is polled, but the form needs the pods earlier.

    :raises SystemExit: KubeSpawner watches all namespaces, and its first list failed.
    """
    await cast("_Spawner", spawner)._start_watching_pods()


async def stop_reflectors(kind: type[WatchingSpawner]) -> None:
    """Stop all reflectors of a spawner class; KubeSpawner does so only in its tests.

    :param kind: the spawner class.
    """
    await cast("Any", kind)._stop_all_reflectors()


def make_stand_in(spawner: WatchingSpawner, *, user_id: object) -> SimpleNamespace:
    """Return a stand-in for a spawner, with which :func:`expand_user_properties` expands templates for any user.

    The caller sets ``user.name`` to the user's name and ``name`` to the server's.

    :param spawner: any spawner of the hub; the stand-in copies its settings.
    :param user_id: the value for ``{userid}`` in templates.
    """
    private = cast("_Spawner", spawner)
    hub_namespace = private._namespace_default()  # reads a file
    return SimpleNamespace(
        user=SimpleNamespace(id=user_id),
        slug_scheme=spawner.slug_scheme,
        # Read the namespace from the configuration, as the spawner's own trait already has that of its user.
        namespace=private._find_my_config(spawner.config).get("namespace", hub_namespace),
        _namespace_default=lambda: hub_namespace,
    )


def expand_user_properties(stand_in: SimpleNamespace, template: str) -> str:
    """Expand one of KubeSpawner's templates, such as ``jhub-{username}``, for a user.

    :param stand_in: result of :func:`make_stand_in`, with the names of the user and the server.
    :param template: text with fields in braces.
    """
    return str(KubeSpawner._expand_user_properties(stand_in, template))


def get_trait_values(spawner: object) -> dict[str, Any]:
    """Return the dict in which traitlets stores the values of a spawner's traits."""
    return cast("_Spawner", spawner)._trait_values


def set_trait_values(spawner: object, values: dict[str, Any]) -> None:
    """Replace the dict in which traitlets stores a spawner's trait values, without validation and observers."""
    cast("_Spawner", spawner)._trait_values = values


def validate_trait_value(trait: Any, value: object, *, owner: HasTraits) -> None:
    """Validate a value as traitlets does at an assignment, without assigning it.

    :param trait: a trait of any class.
    :param value: the value.
    :param owner: the object that traitlets passes to the trait's validators.
    :raises TraitError: the trait does not accept the value. Validators may raise other exceptions.
    """
    trait._validate(owner, value)


def get_client_cache() -> MutableMapping[tuple[object, ...], CoreV1Api]:
    """Return KubeSpawner's cache of API clients, by event loop, class name and arguments.

    KubeSpawner uses a client that is put into this cache. KubeSpawner's traits (k8s_api_host, k8s_api_ssl_ca_cert,
    k8s_api_verify_ssl) can set the API server, but no credentials, context or account to impersonate.
    """
    cache: MutableMapping[tuple[object, ...], CoreV1Api] = kubespawner.clients._client_cache
    return cache
