"""The form as a hub shows it, without a hub and a cluster: a real spawner in front of an API server of the tests.

The site answers the address of the form, and takes what is sent as JupyterHub does: a wrong choice comes back with the
form, and a right one becomes the pod that KubeSpawner would create.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.utils import maybe_future
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from devcluster import gpus, simulated
from devcluster.demo.values import LOCAL, Values
from devcluster.simulated import Pool
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.spawner import GPUSpawner
from tests.browser.support.person import Person
from tests.browser.support.site import PAGE, PATH, STYLE
from tests.cluster.support.fixtures import FLEET
from tests.unit.hub.conftest import spawners, use_api_at
from tests.unit.hub.starts import pod_of
from tests.unit.kube.watch_server import NODES, PODS, serve_watches

SENT = "<!DOCTYPE html><html lang=en><title>Sent</title><body>Sent</body></html>"
Objects = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Reader(Person):
    """A person at such a site, where there is no login page."""

    async def log_in_to(self, path: str, name: str) -> None:
        await self.page.goto(f"{self.url}{path}")


@dataclass(slots=True, kw_only=True)
class FormSite:
    """A site, and what was sent to it.

    :param url: address before ``/hub/spawn``.
    :param pods: manifests of the pods of all choices that were right, in their order.
    """

    url: str = ""
    pods: list[dict[str, Any]] = field(default_factory=list)


class _Form(RequestHandler):
    """JupyterHub's handler of the form, reduced to the part that a spawner has to do with."""

    current_user = SimpleNamespace(name="ada", admin=False)

    def initialize(self, spawner: GPUSpawner, site: FormSite) -> None:
        self._spawner, self._site = spawner, site

    def check_xsrf_cookie(self) -> None:
        """Take any form, as these have no cookie."""

    async def get(self) -> None:
        await self._show()

    async def post(self) -> None:
        sent: dict[str, Any] = {
            name: [each.decode() for each in values] for name, values in self.request.body_arguments.items()
        }
        try:
            options = await maybe_future(self._spawner.run_options_from_form(sent))
        except RefusedStart:
            self.set_status(400)
            await self._show()
            return
        self._site.pods.append(await pod_of(self._spawner, options))
        self._spawner.user_options = {}
        self.finish(SENT)

    async def _show(self) -> None:
        self._spawner.handler = self
        self.finish(PAGE.format(STYLE, await self._spawner.get_options_form()))


@contextmanager
def form_site(
    folder: Path, *, settings: Mapping[str, Any], nodes: Objects, pods: Objects = (), **sections: Any
) -> Iterator[FormSite]:
    """Serve the form of a site from a thread of its own, whose loop runs on while tests do not.

    :param folder: for the kubeconfig.
    :param settings: the section ``GPUSpawner``.
    :param sections: others, by name.
    """
    site = FormSite()
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        stack, is_over = AsyncExitStack(), asyncio.Event()

        async def begin() -> None:
            server = await stack.enter_async_context(serve_watches())
            server.put(NODES, *(be_ready(node) for node in nodes))
            server.put(PODS, *pods)
            use_api_at(server.url, folder, patch)
            make = await stack.enter_async_context(spawners(patch))
            spawner = make(settings=settings, kubespawner=sections.get("KubeSpawner"))
            answering = HTTPServer(Application([(PATH, _Form, {"spawner": spawner, "site": site})]))
            sockets = bind_sockets(0, "127.0.0.1")
            answering.add_sockets(sockets)
            stack.push_async_callback(answering.close_all_connections)
            stack.callback(answering.stop)
            site.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"

        runner.run(begin())
        thread = threading.Thread(target=runner.run, args=(is_over.wait(),))
        thread.start()
        try:
            yield site
        finally:
            runner.get_loop().call_soon_threadsafe(is_over.set)
            thread.join()
            runner.run(stack.aclose())


@contextmanager
def demo_form(folder: Path) -> Iterator[FormSite]:
    """Serve the demo's form, on nodes like the demo's: the one that runs pods is empty, the simulated ones are full."""
    sections = Values.read(LOCAL).hub_sections()
    busy = [node for pool in simulated.load(FLEET) for node in pool.nodes()]
    own = {kind.resource: str(kind.count) for kind in gpus.KINDS}
    (free,) = Pool(name="demo", count=1, allocatable={"cpu": "8", "memory": "32Gi", **own}, labels=gpus.LABELS).nodes()
    with form_site(
        folder, settings=sections.pop("GPUSpawner"), nodes=[*busy, free], pods=[fill(node) for node in busy], **sections
    ) as site:
        yield site


def be_ready(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node that is in service, as a kubelet says it."""
    return {**node, "status": {**node["status"], "conditions": [{"type": "Ready", "status": "True"}]}}


def fill(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod that has all of a node but its places for pods."""
    name = node["metadata"]["name"]
    amounts = {each: amount for each, amount in node["status"]["allocatable"].items() if each != "pods"}
    return {
        "metadata": {"name": f"on-{name}", "namespace": "others"},
        "spec": {
            "nodeName": name,
            "containers": [{"name": "work", "image": "i", "resources": {"limits": amounts, "requests": amounts}}],
        },
        "status": {"phase": "Running"},
    }
