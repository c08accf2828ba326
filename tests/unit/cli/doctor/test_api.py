from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.cluster.shipped_roles import Permission, ServiceAccount
from gpuspawner.cli.doctor.api import (
    NotServedError,
    check_permissions,
    describe_unanswered,
    fetch_kubernetes_version,
    fetch_objects,
)
from gpuspawner.kube.client.api_requests import APIUnavailableError
from tests.unit.cli.doctor.api_server import serving

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
HUB = ServiceAccount("jhub", "hub")


async def test_a_list_is_read_by_its_path_and_selectors():
    async with serving() as (server, cluster):
        server.lists("/api/v1/x", {"metadata": {"name": "a"}})
        assert await fetch_objects(cluster.client, "/api/v1/x", query={"labelSelector": "k=v"}) == (
            {"metadata": {"name": "a"}},
        )
    assert server.asked == [("GET", "/api/v1/x?labelSelector=k%3Dv&limit=200")]


async def test_of_secrets_only_the_names_are_asked_for():
    async with serving() as (server, cluster):
        server.lists("/api/v1/secrets")
        assert await fetch_objects(cluster.client, "/api/v1/secrets", names_only=True) == ()
    assert "PartialObjectMetadataList" in server.headers[0]["Accept"]


async def test_a_resource_that_is_not_served_differs_from_one_that_may_not_be_read():
    async with serving() as (server, cluster):
        with pytest.raises(NotServedError):
            await fetch_objects(cluster.client, "/apis/none/v1/x")
        server.answers["GET", "/api/v1/x"] = lambda _: (403, {})
        with pytest.raises(APIUnavailableError):
            await fetch_objects(cluster.client, "/api/v1/x")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"major": "1", "minor": "36"}, (1, 36)),
        ({"major": "1", "minor": "32+"}, (1, 32)),
        ({"major": "1"}, None),
        ({"major": 1, "minor": None}, None),
        ([], None),
    ],
)
async def test_the_version_is_read_as_clouds_write_it(answer: Any, expected: tuple[int, int] | None):
    async with serving() as (server, cluster):
        server.answers["GET", "/version"] = lambda _: (200, answer)
        assert await fetch_kubernetes_version(cluster.client) == expected


async def test_rights_are_asked_for_as_the_account():
    reviews: list[dict[str, Any]] = []

    def answer(review: dict[str, Any]) -> tuple[int, Any]:
        reviews.append(review["spec"])
        verb = review["spec"]["resourceAttributes"]["verb"]
        return (500, {}) if verb == "watch" else (201, {"status": {"allowed": verb == "get"}})

    rights = [
        Permission("get", "localqueues/pendingworkloads", "g", "jhub"),
        Permission("list", "nodes"),
        Permission("watch", "nodes"),
    ]
    async with serving() as (server, cluster):
        server.answers["POST", REVIEWS] = answer
        assert await check_permissions(cluster.client, [*rights, rights[0]], account=HUB) == {
            rights[0]: True,
            rights[1]: False,
        }
    first = next(each for each in reviews if each["resourceAttributes"]["verb"] == "get")
    assert first["user"] == "system:serviceaccount:jhub:hub"
    assert "system:serviceaccounts:jhub" in first["groups"]
    assert first["resourceAttributes"] == {
        "verb": "get",
        "group": "g",
        "resource": "localqueues",
        "subresource": "pendingworkloads",
        "namespace": "jhub",
    }


def test_rights_that_the_api_server_left_out_are_named():
    asked = [Permission("list", "nodes"), Permission("watch", "nodes"), Permission("get", "secrets")]
    answers = {asked[0]: True, asked[2]: False}
    assert describe_unanswered(asked, answers) == "no answer to 1 of 3 questions: watch nodes"
    assert describe_unanswered(asked[:1], answers) == ""
