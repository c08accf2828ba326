"""Which right is missing, as the API server itself says."""

from __future__ import annotations

import json

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.client.api_requests import NOT_SERVED, find_missing_verb, is_allowed
from tests.unit.kube.watch_server import REVIEWS, WatchServer

SERVED = "/apis/resource.k8s.io/v1"


async def missing(api: CoreV1Api, resource: str = "pods", group: str = "") -> str:
    return await find_missing_verb(api.api_client, resource, timeout_s=5, group=group)


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
    cluster.bodies[SERVED] = '{"resources": [{"name": "resourceslices"}]}'
    ask = find_missing_verb(
        cluster_api.api_client, "resourceslices", group="resource.k8s.io", verbs=("list",), timeout_s=5
    )
    assert await ask == ""
    (asked,) = [json.loads(await each.text()) for each in cluster.requests if each.path == REVIEWS]
    assert asked["spec"]["resourceAttributes"] == {
        "verb": "list",
        "group": "resource.k8s.io",
        "version": "v1",
        "resource": "resourceslices",
    }


async def test_no_right_is_asked_about_where_the_resource_is_not_served(cluster: WatchServer, cluster_api: CoreV1Api):
    assert await missing(cluster_api, "nodepools", "karpenter.sh") == NOT_SERVED
    assert [each.path for each in cluster.requests if each.path == REVIEWS] == []


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ('{"resources": [{"name": "resourceslices"}]}', None, ""),
        ('{"resources": [{"name": "resourceclaims"}]}', None, NOT_SERVED),
        ("{}", None, NOT_SERVED),
        ('{"resources": {"a": 3}}', None, NOT_SERVED),
        ('{"resources": 3}', None, NOT_SERVED),
        ("[]", None, NOT_SERVED),
        ("", 404, NOT_SERVED),
        # Without an answer, the list itself tells.
        ("", None, ""),
        ("", 403, ""),
        ("", 500, ""),
    ],
)
async def test_no_account_may_list_what_is_not_served(
    cluster: WatchServer, cluster_api: CoreV1Api, body: str, status: int | None, expected: str
):
    cluster.bodies[SERVED] = body
    cluster.status = {SERVED: status} if status else {}
    assert await missing(cluster_api, "resourceslices", "resource.k8s.io") == expected


async def test_a_right_on_what_is_served_may_be_missing(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.bodies[SERVED] = '{"resources": [{"name": "resourceslices"}]}'
    cluster.denied = {("watch", "resourceslices")}
    assert await missing(cluster_api, "resourceslices", "resource.k8s.io") == "watch"


@pytest.mark.parametrize(("denied", "allowed"), [((), True), ((("impersonate", "serviceaccounts"),), False)])
async def test_one_right_can_be_asked_for_by_itself(
    cluster: WatchServer, cluster_api: CoreV1Api, denied: tuple[tuple[str, str], ...], allowed: bool
):
    cluster.denied = set(denied)
    attributes = {"verb": "impersonate", "resource": "serviceaccounts", "namespace": "jhub", "name": "hub"}
    assert await is_allowed(cluster_api.api_client, attributes, timeout_s=5) is allowed


async def test_a_right_without_an_answer_is_unknown(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.status[REVIEWS] = 500
    assert await is_allowed(cluster_api.api_client, {"verb": "list", "resource": "nodes"}, timeout_s=5) is None
