"""A spawner as a hub would make it for somebody, where there is no hub: for telling what it would start, not to do it.

KubeSpawner makes its own connection when it is made, with what a hub's pod has, and shares it through a table of its
module. Here there is a connection already, perhaps to another cluster and as somebody else, so it goes into that table.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

import kubespawner.spawner
from jupyterhub.objects import Hub
from kubernetes_asyncio.client import CoreV1Api
from traitlets import TraitError

from gpuspawner.cli.cluster.cluster_view import ClusterViewer
from gpuspawner.cli.cluster.connection import FIRST_READ_TIMEOUT_S
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.form.warnings import AdminWarnings
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner import GPUSpawner

TOKEN_PLACEHOLDER = "set-by-the-hub"  # noqa: S105 - it stands where a hub puts one
"""What a pod shown here has in the place of tokens."""

_SILENT = logging.getLogger(__name__)
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@asynccontextmanager
async def open_offline_spawner(viewer: ClusterViewer, person: Person) -> AsyncIterator[GPUSpawner]:
    """Make a spawner for somebody's default server, and stop in the end what it has begun.

    :raises SettingsError: KubeSpawner does not accept what the values say.
    """
    # A class of its own, so that nothing of it is left behind in the one that others use.
    own = {"offer_factory": viewer.offers, "admin_warnings": AdminWarnings(), "admission": AdmissionService()}
    kind: type[GPUSpawner] = type("GPUSpawner", (_OfflineSpawner,), {"reflectors": {}, **own})
    with _share_connection(viewer.cluster.core):
        try:
            yield _make_spawner(kind, viewer=viewer, person=person)
        finally:
            await private_api.stop_reflectors(kind)


class _OfflineSpawner(GPUSpawner):
    active = True
    """All pods that exist count as what a person has: nobody here knows which of them the server asked about is."""


def _make_spawner(kind: type[GPUSpawner], *, viewer: ClusterViewer, person: Person) -> GPUSpawner:
    user = SimpleNamespace(
        name=person.name,
        id=1,
        url=f"/user/{person.name}/",
        settings={},
        groups=[SimpleNamespace(name=name) for name in sorted(person.groups or ())],
        escaped_name=person.name,
    )
    try:
        return kind(
            hub=Hub(ip="127.0.0.1", port=8081, connect_ip="hub", base_url="/hub/"),
            user=user,
            config=viewer.config,
            api_token=TOKEN_PLACEHOLDER,
            oauth_client_id=TOKEN_PLACEHOLDER,
            log=_SILENT,
            # A form is not to wait for long; whoever asks here wants to know.
            capacity_timeout=FIRST_READ_TIMEOUT_S,
        )
    except TraitError as error:
        message = f"KubeSpawner does not accept it: {error}"
        raise SettingsError(Problem(field="hub.config", code="bad_value", message=message)) from error


@contextmanager
def _share_connection(api: CoreV1Api) -> Iterator[None]:
    """Have KubeSpawner, and its watches of pods, use a connection that there is."""
    # load_config() has neither a file's name nor a context: it reads what a pod or $KUBECONFIG has into the client's
    # global default, or fails where there is no such thing.
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
    """Do nothing, in the place of reading what a hub's pod has for a connection."""
