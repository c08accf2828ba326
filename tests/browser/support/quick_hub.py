"""A hub whose servers run at once, for tests of open forms: the rest of it is the real one."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support import quick_spawner
from tests.cluster.support.fixtures import offer
from tests.cluster.support.waiting import wait_for

ADMIN = "boss"
TITLE = "A running server"
COURSE = {
    "display_name": "Course",
    "slug": "course",
    "kubespawner_override": {"environment": {"COURSE": "statistics"}},
    "profile_options": {
        "size": {
            "display_name": "Size",
            "choices": {
                "small": {"display_name": "Small", "default": True, "kubespawner_override": {"mem_limit": "1G"}},
                "large": {"display_name": "Large", "kubespawner_override": {"mem_limit": "2G"}},
            },
        },
        "image": {
            "display_name": "Image",
            "choices": {"lab": {"display_name": "JupyterLab"}},
            "unlisted_choice": {
                "enabled": True,
                "display_name": "Custom image",
                "validation_regex": "^localhost/.+$",
                "kubespawner_override": {"image": "{value}"},
            },
        },
    },
}


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f'<!DOCTYPE html><html lang="en"><title>{TITLE}</title><h1>{TITLE}</h1></html>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the tests' output short."""


@contextmanager
def run_quick_hub(
    cluster: Cluster, folder: Path, *, namespace: str = "quick", python: Path = Path(sys.executable)
) -> Iterator[Hub]:
    """Run a hub whose servers run at once, whose names and passwords are any, and that has a profile beside the fields.

    :param folder: for its configuration, database and logs.
    :param python: interpreter that runs the hub.
    """
    server = ThreadingHTTPServer((cluster.gateway, 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    shutil.copy(quick_spawner.__file__, folder)
    (folder / quick_spawner.SERVER.name).write_text(f"{cluster.gateway}:{server.server_port}")
    custom = {"allowed": True, "registries": ["localhost"]}
    settings = HubSettings(
        namespace=namespace,
        gpuspawner=offer(cluster, custom_images=custom, run_time={"max": "8h"}),
        extra={"KubeSpawner": {"profile_list": [COURSE]}},
        spawner_class="quick_spawner.QuickSpawner",
        admin_users=[ADMIN],
        python=python,
    )
    with Hub(cluster, settings, run_dir=folder) as hub:
        yield hub
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def quick_hub(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Run a quick hub for all tests."""
    with run_quick_hub(cluster, tmp_path_factory.mktemp("quick-hub")) as hub:
        yield hub


def is_at_rest(hub: Hub, user: str, *, server: str = "") -> bool:
    """Whether a user's server neither starts, runs nor stops.

    :param server: the server's name; "" = the default server.
    """
    state = hub.client.servers(user).get(server, {})
    return not state.get("ready") and not state.get("pending")


def end_server(hub: Hub, user: str, *, server: str = "") -> None:
    """Stop a user's server as JupyterHub's home page does, whatever it is doing, and wait until it is at rest.

    :param server: the server's name; "" = the default server.
    """

    def look() -> bool:
        state = hub.client.servers(user).get(server, {})
        if state.get("ready") or state.get("pending") == "spawn":
            hub.client.stop_server(user, name=server)
        return is_at_rest(hub, user, server=server)

    wait_for(look, f"the server of {user} at rest")


async def sign_in(context: BrowserContext, url: str, name: str) -> None:
    """Sign in beside the open pages, as another window of the same browser would."""
    page = await context.request.get(f"{url}/hub/login?next=/hub/home", max_redirects=0)
    if page.status == HTTPStatus.FOUND:  # who is signed in stays so
        return
    found = re.search(r'name="_xsrf"\s+value="([^"]+)"', await page.text())
    form = {"username": name, "password": "any password", "_xsrf": found[1] if found else ""}
    answer = await context.request.post(f"{url}/hub/login?next=/hub/home", form=form, max_redirects=0)
    assert answer.headers.get("location") == "/hub/home", (answer.status, answer.url)


async def sign_out(context: BrowserContext, url: str) -> None:
    """Sign out beside the open pages."""
    await context.request.get(f"{url}/hub/logout")
