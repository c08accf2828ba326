"""A spawner that needs no hub: it builds pods but does not start them.

KubeSpawner itself connects to the cluster of its pod or of the default kubeconfig, but the command may need a different
cluster or account. This module therefore puts the command's API client into KubeSpawner's cache of clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import kubespawner.spawner
from jupyterhub.objects import Hub
from kubernetes_asyncio.client import CoreV1Api
from kubespawner import KubeSpawner
from traitlets import TraitError
from traitlets.config import Config

from gpuspawner.cli.cluster.cluster_view import FALLBACK_IMAGE, ClusterViewer
from gpuspawner.cli.cluster.connection import FIRST_READ_TIMEOUT_S
from gpuspawner.cli.values.chart_config import get_configured_trait
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.form.warnings import AdminWarnings
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.preview import copy_with_group_overrides
from gpuspawner.hub.spawner import GPUSpawner

SpawnerT = TypeVar("SpawnerT", bound=KubeSpawner)

TOKEN_PLACEHOLDER = "set-by-the-hub"  # noqa: S105 - it is no secret
"""Placeholder in the pod for the tokens that the hub would create."""

_SILENT = logging.getLogger(__name__)
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@asynccontextmanager
async def open_offline_spawner(viewer: ClusterViewer, person: Person) -> AsyncIterator[GPUSpawner]:
    """Yield a spawner for a user's default server, and stop its watches when the context ends.

    The spawner has the traits that ``group_overrides`` give the user's groups.

    :raises SettingsError: KubeSpawner does not accept the values.
    """
    # Create a subclass with its own class attributes, so that those of GPUSpawner itself stay unchanged.
    own = {"offer_factory": viewer.offers, "admin_warnings": AdminWarnings(), "admission": AdmissionService()}
    kind: type[GPUSpawner] = type("GPUSpawner", (_OfflineSpawner,), {"reflectors": {}, **own})
    # Give the first read of the cluster more time than capacity_timeout's default, which is short because users wait
    # for a form.
    traits = {"capacity_timeout": FIRST_READ_TIMEOUT_S}
    with share_connection(viewer.cluster.core):
        try:
            spawner = make_offline_spawner(kind, config=viewer.config, person=person, traits=traits)
            yield await _apply_group_overrides(spawner)
        finally:
            await private_api.stop_reflectors(kind)


class _OfflineSpawner(GPUSpawner):
    active = True
    """Pretend that the server runs, so that GPU limits also count the GPUs of the user's default server."""


def make_offline_spawner(
    kind: type[SpawnerT], *, config: Config, person: Person, traits: Mapping[str, Any] | None = None
) -> SpawnerT:
    """Return a spawner for a user's default server; call this inside :func:`share_connection`.

    :param config: the configuration from :func:`gpuspawner.cli.values.chart_config.build_spawner_config`.
    :param traits: name of a trait → value that overrides the configuration.
    :raises SettingsError: KubeSpawner does not accept the values.
    """
    user = SimpleNamespace(
        name=person.name,
        id=1,
        url=f"/user/{person.name}/",
        settings={},
        groups=[SimpleNamespace(name=name) for name in sorted(person.groups or ())],
        escaped_name=person.name,
    )
    # If the values name no image, servers use the default image of zero-to-jupyterhub.
    image = {} if get_configured_trait(config, "image") else {"image": FALLBACK_IMAGE}
    try:
        spawner: SpawnerT = kind(
            hub=Hub(ip="127.0.0.1", port=8081, connect_ip="hub", base_url="/hub/"),
            user=user,
            config=config,
            api_token=TOKEN_PLACEHOLDER,
            oauth_client_id=TOKEN_PLACEHOLDER,
            log=_SILENT,
            **image,
            **(traits or {}),
        )
    except (TraitError, TypeError) as error:  # some traits raise TypeError for a list
        message = f"KubeSpawner does not accept it: {error}"
        raise SettingsError(Problem(field="hub.config", code="bad_value", message=message)) from error
    return spawner


async def _apply_group_overrides(spawner: GPUSpawner) -> GPUSpawner:
    try:
        return await copy_with_group_overrides(spawner)
    except Exception as error:
        message = f"JupyterHub cannot apply them: {type(error).__name__}: {error}"
        raise SettingsError(
            Problem(field="hub.config", code="bad_value", message=f"group_overrides: {message}")
        ) from error


@contextmanager
def share_connection(api: CoreV1Api) -> Iterator[None]:
    """Make new spawners use the command's API client, until the context ends."""
    # Use KubeSpawner's cache of clients: KubeSpawner has no traits for credentials, a context or an impersonated user.
    clients = private_api.get_client_cache()
    module: Any = kubespawner.spawner
    key = (asyncio.get_running_loop(), "CoreV1Api", (), ())
    load_config = module.load_config
    clients[key], module.load_config = api, _do_nothing
    try:
        yield
    finally:
        module.load_config = load_config
        clients.pop(key, None)


def _do_nothing(**_: object) -> None:
    """Replace KubeSpawner's ``load_config``, which fails outside a pod if there is no kubeconfig."""
