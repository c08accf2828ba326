"""Which right is missing, as the API server itself says."""

from __future__ import annotations

import json

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.access import missing_verb
from tests.unit.kube.watch_server import REVIEWS, WatchServer


async def missing(api: CoreV1Api, resource: str = "pods") -> str:
    return await missing_verb(api.api_client, resource, timeout_s=5)


async def test_with_all_rights_none_is_missing(cluster_api: CoreV1Api):
    assert await missing(cluster_api) == ""


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_missing_right_is_named(cluster: WatchServer, cluster_api: CoreV1Api, verb: str):
    cluster.denied = {(verb, "pods")}
    assert await missing(cluster_api) == verb


async def test_a_right_on_something_else_does_not_matter(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.denied = {("list", "nodes")}
    assert await missing(cluster_api) == ""


async def test_the_list_is_named_before_the_watch(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.denied = {("list", "pods"), ("watch", "pods")}
    assert await missing(cluster_api) == "list"


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_question_without_an_answer_counts_as_a_yes(cluster: WatchServer, cluster_api: CoreV1Api, status: int):
    cluster.status[REVIEWS] = status
    cluster.denied = {("list", "pods")}
    assert await missing(cluster_api) == ""


async def test_all_namespaces_of_the_core_api_are_asked_about(cluster: WatchServer, cluster_api: CoreV1Api):
    await missing(cluster_api, "nodes")
    asked = [json.loads(await request.text())["spec"]["resourceAttributes"] for request in cluster.requests]
    assert sorted(asked, key=lambda each: each["verb"]) == [
        {"verb": verb, "group": "", "version": "v1", "resource": "nodes"} for verb in ("list", "watch")
    ]


async def test_another_group_is_asked_about_by_its_name(cluster: WatchServer, cluster_api: CoreV1Api):
    await missing_verb(cluster_api.api_client, "nodepools", group="karpenter.sh", verbs=("list",), timeout_s=5)
    (asked,) = [json.loads(await request.text())["spec"]["resourceAttributes"] for request in cluster.requests]
    assert asked == {"verb": "list", "group": "karpenter.sh", "version": "v1", "resource": "nodepools"}
