"""The volume claim of a start whose pod the API server refuses is not left behind; any other claim is left alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from tornado.web import HTTPError

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.followed import cut_off
from tests.unit.kube.watch_server import WatchServer, eventually, refusal

HOME = {"storage_pvc_ensure": True, "storage_capacity": "1Gi", "pvc_name_template": "claim-ada"}
FOLDER = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIM = f"{FOLDER}/claim-ada"
PODS = "/api/v1/namespaces/default/pods"
NO_DRY_RUN = {**SETTINGS, "dry_run": False}
OPTIONS = {"image": "minimal"}


class Claims:
    """The API server's volume claims."""

    def __init__(self, server: WatchServer) -> None:
        self.held: dict[str, Any] = {}
        self.deleting_for = 0
        """Reads after which a deleted claim is gone."""
        server.answers |= {("POST", FOLDER): self.create, ("GET", CLAIM): self.read, ("DELETE", CLAIM): self.delete}

    def put(self, annotations: dict[str, str] | None = None) -> None:
        self.held["claim-ada"] = {"metadata": {"name": "claim-ada", "uid": "1", "annotations": annotations}}

    async def create(self, request: web.Request) -> web.Response:
        if self.held:
            return refusal(409, "already exists")(request)
        raw = await request.json()
        self.held["claim-ada"] = {**raw, "metadata": {**raw["metadata"], "uid": "2"}}
        return web.json_response(self.held["claim-ada"], status=201)

    def read(self, request: web.Request) -> web.Response:
        if self.held and "deletionTimestamp" in self.held["claim-ada"]["metadata"]:
            self.deleting_for -= 1
            if self.deleting_for < 0:
                self.held.clear()
        return web.json_response(self.held["claim-ada"]) if self.held else refusal(404)(request)

    async def delete(self, request: web.Request) -> web.Response:
        body = json.loads(await request.text())
        metadata = self.held["claim-ada"]["metadata"]
        assert body["preconditions"] == {"uid": metadata["uid"]}
        metadata["deletionTimestamp"] = "2026-11-22T10:00:00Z"
        return web.json_response(self.held["claim-ada"])


@pytest.fixture
def claims(server: WatchServer) -> Claims:
    return Claims(server)


async def refused(spawner: GPUSpawner) -> None:
    spawner.user_options = OPTIONS
    with pytest.raises(HTTPError):
        await spawner.start()


@pytest.mark.parametrize("deleting_for", [0, 2])
async def test_the_claim_of_a_start_that_is_refused_later_is_gone_when_the_start_has_ended(
    make_spawner: MakeSpawner, server: WatchServer, claims: Claims, deleting_for: int
):
    claims.deleting_for = deleting_for
    server.answers["POST", PODS] = refusal(500, 'failed calling webhook "mpod.kb.io"')
    spawner = make_spawner(settings=NO_DRY_RUN, kubespawner=HOME)
    await refused(spawner)
    assert (claims.held, "pvc_name" in spawner.get_state()) == ({}, False)


async def test_no_claim_is_made_where_the_dry_run_is_refused(
    make_spawner: MakeSpawner, server: WatchServer, claims: Claims
):
    server.answers["POST", PODS] = refusal(500, 'failed calling webhook "mpod.kb.io"')
    spawner = make_spawner(kubespawner={**HOME, "k8s_api_request_retry_timeout": 1})
    await refused(spawner)
    assert [each.path for each in server.requests if each.path.startswith(FOLDER)] == []


async def test_a_claim_that_was_there_is_left_alone(make_spawner: MakeSpawner, server: WatchServer, claims: Claims):
    claims.put()
    server.answers["POST", PODS] = refusal(403)
    await refused(make_spawner(settings=NO_DRY_RUN, kubespawner=HOME))
    assert list(claims.held.values()) == [{"metadata": {"name": "claim-ada", "uid": "1", "annotations": None}}]


async def test_the_claim_of_an_earlier_start_is_left_alone(
    make_spawner: MakeSpawner, server: WatchServer, claims: Claims
):
    first = make_spawner(settings=NO_DRY_RUN, kubespawner=HOME)
    first.user_options = OPTIONS
    start = first.start()
    await eventually(lambda: first.start_state.feed.is_sent)
    await eventually(lambda: any(each.method == "POST" and each.path == PODS for each in server.requests))
    await asyncio.sleep(0)
    await cut_off(start)
    server.answers["POST", PODS] = refusal(403)
    await refused(make_spawner(settings=NO_DRY_RUN, kubespawner=HOME))
    assert list(claims.held) == ["claim-ada"]


async def test_a_start_whose_claim_was_refused_leaves_no_trace_for_the_next_one(
    make_spawner: MakeSpawner, server: WatchServer, claims: Claims
):
    server.answers |= {("POST", FOLDER): refusal(403), ("POST", PODS): refusal(403)}
    await refused(make_spawner(settings=NO_DRY_RUN, kubespawner=HOME))
    server.answers["POST", FOLDER] = claims.create
    await refused(make_spawner(settings=NO_DRY_RUN, kubespawner=HOME))
    deleted = [each.path for each in server.requests if each.method == "DELETE"]
    assert (claims.held, deleted) == ({}, [CLAIM])


async def test_a_claim_that_another_start_uses_meanwhile_is_left_alone(
    make_spawner: MakeSpawner, server: WatchServer, claims: Claims
):
    other = make_spawner(settings=NO_DRY_RUN, kubespawner=HOME)

    class Slow(GPUSpawner):
        async def get_pod_manifest(self) -> Any:
            await other._make_create_pvc_request(other.get_pvc_manifest(), 1)
            return await super().get_pod_manifest()

    spawner = make_spawner(kind=Slow, settings=NO_DRY_RUN, kubespawner=HOME)
    server.answers["POST", PODS] = refusal(403)
    await refused(spawner)
    assert list(claims.held) == ["claim-ada"]


async def test_a_start_waits_until_the_claim_is_gone_that_another_one_removes(
    make_spawner: MakeSpawner, server: WatchServer, claims: Claims
):
    claims.deleting_for = 3
    server.answers["POST", PODS] = refusal(403)
    spawner, other = (make_spawner(settings=NO_DRY_RUN, kubespawner=HOME) for _ in range(2))
    spawner.user_options = OPTIONS
    start = spawner.start()
    await eventually(lambda: any(each.method == "DELETE" for each in server.requests))
    await other._make_create_pvc_request(other.get_pvc_manifest(), 5)
    made = claims.held["claim-ada"]["metadata"]
    await asyncio.gather(start, return_exceptions=True)
    assert (made["uid"], "deletionTimestamp" in made) == ("2", False)


async def test_a_claim_that_cannot_be_removed_is_named_in_the_log(
    make_spawner: MakeSpawner, server: WatchServer, claims: Claims, caplog: pytest.LogCaptureFixture
):
    server.answers |= {("POST", PODS): refusal(403), ("DELETE", CLAIM): refusal(403)}
    await refused(make_spawner(settings=NO_DRY_RUN, kubespawner=HOME))
    assert [each for each in caplog.messages if "claim-ada of a refused start may be left" in each] != []
