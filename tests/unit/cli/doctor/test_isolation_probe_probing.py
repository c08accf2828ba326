from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpuspawner.cli.doctor.isolation_probe import ProbeResult, run_probe_pods
from tests.unit.cli.doctor.api_server import APIServer, serving

PODS = "/api/v1/namespaces/jhub/pods"


def answering(server: APIServer, *phases: str, asked: asyncio.Event | None = None) -> list[str]:
    """Have pods go through phases, one a question; the result names those that are there.

    :param asked: is set once there are two.
    """
    there: list[str] = []
    left = list(phases)

    def create(pod: Any) -> tuple[int, Any]:
        there.append(pod["metadata"]["name"])
        if asked is not None and len(there) == 2:
            asked.set()
        return 201, pod

    def read(_: Any) -> tuple[int, Any]:
        phase = left.pop(0) if len(left) > 1 else left[0]
        ended = {"terminated": {"exitCode": 0, "message": "\n/dev/nvidia0\n"}}
        return 200, {"status": {"phase": phase, "containerStatuses": [{"name": "unset", "state": ended}]}}

    def delete(_: Any) -> tuple[int, Any]:
        there.pop()
        return 200, {}

    server.answers |= {("POST", PODS): create, ("GET", PODS): read, ("DELETE", PODS): delete}
    return there


async def test_the_gpus_that_a_pod_saw_are_reported_and_the_pod_is_gone():
    async with serving() as (server, cluster):
        there = answering(server, "Pending", "Succeeded")
        left: list[str] = []
        found = await run_probe_pods(cluster, ["n"], image="i", leftover=left)
    assert (found, there, left) == ((ProbeResult(node="n", way="unset", devices=("/dev/nvidia0",)),), [], [])


async def test_a_cancelled_probe_takes_its_pods_along():
    async with serving() as (server, cluster):
        all_there = asyncio.Event()
        there = answering(server, "Pending", asked=all_there)
        task = asyncio.create_task(run_probe_pods(cluster, ["n", "m"], image="i", leftover=[]))
        async with asyncio.timeout(5):
            await all_there.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert there == []


async def test_a_probe_that_is_cancelled_twice_names_its_pods():
    left: list[str] = []
    async with serving() as (server, cluster):
        all_there, terminating = asyncio.Event(), asyncio.Event()
        there = answering(server, "Pending", asked=all_there)

        def refuse(_: Any) -> tuple[int, Any]:
            terminating.set()
            return 500, {}

        server.answers["DELETE", PODS] = refuse
        task = asyncio.create_task(run_probe_pods(cluster, ["n", "m"], image="i", leftover=left))
        for moment in (all_there, terminating):
            async with asyncio.timeout(5):
                await moment.wait()
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(left) == sorted(there)


async def test_patience_ends_and_so_do_the_pods():
    async with serving() as (server, cluster):
        there = answering(server, "Pending")
        found = await run_probe_pods(cluster, ["n"], image="i", leftover=[], timeout_s=0.05)
    assert (there, [each.node for each in found]) == ([], ["n"])


async def test_a_pod_that_is_refused_is_reported():
    async with serving() as (server, cluster):
        server.answers["POST", PODS] = lambda _: (403, {})
        found = await run_probe_pods(cluster, ["n"], image="i", leftover=[])
    assert found == (ProbeResult(node="n", way="unset", trouble="HTTP status 403"),)


async def test_a_pod_that_cannot_be_removed_is_named():
    left: list[str] = []
    async with serving() as (server, cluster):
        there = answering(server, "Succeeded")
        server.answers["DELETE", PODS] = lambda _: (500, {})
        await run_probe_pods(cluster, ["n"], image="i", leftover=left)
    assert left == there
    assert len(left) == 1
