"""Where the volumes behind claims can be used, as a server answers that has the two kinds of objects."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.cluster.model import NodeSelectorTerm, PodConstraints, SelectorRequirement
from gpuspawner.kube.resources.volume_topology import (
    VOLUME_CACHE_S,
    VOLUME_RETRY_S,
    VOLUME_UNANSWERED_S,
    VolumeTopology,
)
from tests.unit.clocks import Clock
from tests.unit.kube.watch_server import WatchServer

CLAIM = "/api/v1/namespaces/hub/persistentvolumeclaims/claim-ada"
VOLUME = "/api/v1/persistentvolumes/pv-1"
ZONE = "topology.kubernetes.io/zone"
ASKS = PodConstraints(unread_claims=("claim-ada",))


def claim(*, modes: tuple[str, ...] = ("ReadWriteOnce",), **metadata: Any) -> dict[str, Any]:
    """Return a claim that is bound for good."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    return {"metadata": {"annotations": annotations, **metadata}, "spec": {"volumeName": "pv-1", "accessModes": modes}}


def bound(cluster: WatchServer) -> None:
    cluster.bodies[CLAIM] = json.dumps(claim())
    expression = f'{{"key": "{ZONE}", "operator": "In", "values": ["a"]}}'
    terms = f'{{"nodeSelectorTerms": [{{"matchExpressions": [{expression}]}}]}}'
    cluster.bodies[VOLUME] = f'{{"spec": {{"nodeAffinity": {{"required": {terms}}}}}}}'


async def located(cluster_api: Any) -> PodConstraints:
    return await VolumeTopology(cluster_api).resolve_claims(ASKS, namespace="hub")


async def test_a_bound_claim_keeps_the_server_where_its_volume_is(cluster: WatchServer, cluster_api: CoreV1Api):
    bound(cluster)
    term = NodeSelectorTerm(expressions=(SelectorRequirement(key=ZONE, operator="In", values=("a",)),))
    assert await located(cluster_api) == PodConstraints(volume_terms=((term,),))


async def test_a_claim_that_is_still_to_be_made_demands_nothing(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.status[CLAIM] = 404
    found = await VolumeTopology(cluster_api).resolve_claims(ASKS, namespace="hub", new_claims=["claim-ada"])
    assert found == PodConstraints()


async def test_a_claim_that_nothing_will_make_is_undecided(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.status[CLAIM] = 404
    assert (await located(cluster_api)).undecided == ("a volume claim that does not exist",)


@pytest.mark.parametrize(("path", "status"), [(CLAIM, 403), (CLAIM, 500), (VOLUME, 403), (VOLUME, 404)])
async def test_what_cannot_be_read_is_undecided(cluster: WatchServer, cluster_api: CoreV1Api, path: str, status: int):
    bound(cluster)
    cluster.status[path] = status
    (words,) = (await located(cluster_api)).undecided
    assert "home volume" in words


@pytest.mark.parametrize("body", ["{}", "[]", '{"spec": {"volumeName": ""}}', '{"spec": 3}', "no JSON"])
async def test_a_claim_without_a_volume_is_undecided(cluster: WatchServer, cluster_api: CoreV1Api, body: str):
    cluster.bodies[CLAIM] = body
    found = await located(cluster_api)
    assert (found.unread_claims, len(found.undecided)) == ((), 1)


async def test_a_claim_is_asked_about_once_a_minute(cluster: WatchServer, cluster_api: CoreV1Api, clock: Clock):
    bound(cluster)
    homes = VolumeTopology(cluster_api, clock=clock)
    for passed_s in (0.0, VOLUME_CACHE_S - 1, 2.0):
        clock.now += passed_s
        await homes.resolve_claims(ASKS, namespace="hub")
    assert len(cluster.requests) == 4


@pytest.mark.parametrize("answer", [404, "named but not bound"])
async def test_a_claim_that_is_made_and_bound_while_a_server_waits_for_it_is_known_soon(
    cluster: WatchServer, cluster_api: CoreV1Api, clock: Clock, answer: int | str
):
    bound(cluster)
    known = await located(cluster_api)
    homes = VolumeTopology(cluster_api, clock=clock)
    if isinstance(answer, int):
        cluster.status[CLAIM] = answer
    else:
        cluster.bodies[CLAIM] = json.dumps(claim(annotations={}))
    before = await homes.resolve_claims(ASKS, namespace="hub")
    cluster.status.clear()
    bound(cluster)
    clock.now += VOLUME_RETRY_S + 1
    assert (before != known, await homes.resolve_claims(ASKS, namespace="hub")) == (True, known)


async def test_without_claims_nothing_is_asked(cluster: WatchServer, cluster_api: CoreV1Api):
    await VolumeTopology(cluster_api).resolve_claims(PodConstraints(), namespace="hub")
    assert cluster.requests == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(claim(deletionTimestamp="2026-01-01T00:00:00Z"), "is being deleted", id="on its way out"),
        pytest.param(claim(annotations={}), "will be made", id="named but not bound"),
        pytest.param({**claim(), "status": {"phase": "Lost"}}, "is lost", id="its volume is gone"),
        pytest.param(claim(modes=("ReadWriteOncePod",)), "another server uses", id="for one pod"),
    ],
)
async def test_what_kube_scheduler_would_ask_of_a_claim_is_undecided(
    cluster: WatchServer, cluster_api: CoreV1Api, found: dict[str, Any], words: str
):
    bound(cluster)
    cluster.bodies[CLAIM] = json.dumps(found)
    (undecided,) = (await located(cluster_api)).undecided
    assert words in undecided


@pytest.mark.parametrize(("status", "is_known"), [(503, True), (403, False)])
async def test_what_could_not_be_read_is_asked_for_again_soon_and_what_may_not_be_read_later(
    cluster: WatchServer, cluster_api: CoreV1Api, clock: Clock, status: int, is_known: bool
):
    bound(cluster)
    homes = VolumeTopology(cluster_api, clock=clock)
    cluster.status[CLAIM] = status
    await homes.resolve_claims(ASKS, namespace="hub")
    cluster.status.clear()
    clock.now += VOLUME_RETRY_S + 1
    assert (not (await homes.resolve_claims(ASKS, namespace="hub")).undecided) is is_known


async def test_a_claim_that_is_nested_too_deeply_is_undecided(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.bodies[CLAIM] = '{"a":' * 5000 + "1" + "}" * 5000
    (words,) = (await located(cluster_api)).undecided
    assert "cannot read" in words


async def test_a_claim_without_an_answer_in_time_is_undecided_and_not_asked_about_for_a_while(
    cluster: WatchServer, cluster_api: CoreV1Api, clock: Clock
):
    cluster.held.add(CLAIM)
    homes = VolumeTopology(cluster_api, timeout_s=0.05, clock=clock)
    found = []
    for passed_s in (0.0, VOLUME_UNANSWERED_S - 0.1, 0.2):
        clock.now += passed_s
        found.append(len((await homes.resolve_claims(ASKS, namespace="hub")).undecided))
    assert (found, len(cluster.requests)) == ([1, 1, 1], 2)


async def test_a_caller_without_time_leaves_the_answer_to_the_next_one(cluster: WatchServer, cluster_api: CoreV1Api):
    bound(cluster)
    homes = VolumeTopology(cluster_api)
    first = await homes.resolve_claims(ASKS, namespace="hub", wait_s=0.0)
    while (found := await homes.resolve_claims(ASKS, namespace="hub")).undecided:  # noqa: ASYNC110 - it knows no event
        await asyncio.sleep(0)
    assert (len(first.undecided), len(found.volume_terms), len(cluster.requests)) == (1, 1, 2)


async def test_a_claim_that_the_hub_has_created_is_read_again(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.status[CLAIM] = 404
    homes = VolumeTopology(cluster_api)
    new = ["claim-ada"]
    absent = await homes.resolve_claims(ASKS, namespace="hub", new_claims=new)
    cluster.status.clear()
    bound(cluster)
    found = [await homes.resolve_claims(ASKS, namespace="hub", new_claims=each) for each in (new, None)]
    assert [len(each.volume_terms) for each in (absent, *found)] == [0, 0, 1]
