"""A real spawner of each site, in front of a made-up API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from kubespawner import KubeSpawner

from tests.fuzz.support.sites import SITES, Site
from tests.fuzz.support.stand import Stand
from tests.unit.conftest import no_certificate_authorities
from tests.unit.hub.conftest import spawners, use_api_at
from tests.unit.kube.watch_server import NODES, NVIDIA_CLASS, RUNTIME_CLASSES, serve_watches

__all__ = ["no_certificate_authorities"]


@pytest.fixture(scope="module", params=SITES, ids=lambda site: site.name)
def site(request: pytest.FixtureRequest) -> Site:
    return request.param


@pytest.fixture(scope="module")
def stand(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One spawner for all requests to a site, as the hub keeps one for all starts of a person."""
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        stack = AsyncExitStack()

        async def begin() -> Stand:
            server = await stack.enter_async_context(serve_watches())
            server.put(NODES, *site.nodes)
            server.put(RUNTIME_CLASSES, NVIDIA_CLASS)
            use_api_at(server.url, tmp_path_factory.mktemp(site.name), patch)
            make = await stack.enter_async_context(spawners(patch))
            spawner = make(settings=site.settings, kubespawner=site.kubespawner)

            async def build_plain(options: dict[str, Any] | None) -> dict[str, Any]:
                usual = KubeSpawner(hub=spawner.hub, user=spawner.user, config=spawner.config, oauth_client_id="unused")
                usual.clear_state()
                if options is not None:
                    usual.user_options = options
                    await usual.load_user_options()
                pod: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(await usual.get_pod_manifest())
                return pod

            plain = await build_plain(None)
            return Stand(runner=runner, site=site, spawner=spawner, plain=plain, build_plain=build_plain)

        try:
            yield runner.run(begin())
        finally:
            runner.run(stack.aclose())


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Log nothing: JupyterHub logs a traceback for each refusal, and they are tens of thousands."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
