from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.cluster.cluster_view import open_cluster_viewer
from gpuspawner.cli.cluster.connection import ClusterError
from gpuspawner.cli.cluster.shipped_roles import ServiceAccount
from gpuspawner.cli.doctor.fact_reader import read_facts
from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind, get_object_name
from tests.unit.cli.conftest import Parsed, settings
from tests.unit.cli.doctor.cases import named
from tests.unit.kube.watch_server import NODES, WatchServer

HUB_PODS = "/api/v1/namespaces/jhub/pods"
DAEMON_SETS = "/apis/apps/v1/daemonsets"


async def read(
    parsed: Parsed, *, values: Any = None, account: ServiceAccount | None = None
) -> tuple[ClusterFacts, list[ObjectKind]]:
    async with open_cluster_viewer(parsed(values=values)) as onlooker:
        facts, unread = await read_facts(onlooker, account=account)
    return facts, list(unread)


async def test_what_there_is_is_read_as_the_hub_counts_it(server: WatchServer, parsed: Parsed):
    server.bodies["/version"] = '{"major": "1", "minor": "33"}'
    server.put("/api/v1/namespaces", named("jhub"))
    facts, unread = await read(parsed, values=settings(cpu={"max": 2}))
    assert (facts.namespace, facts.version, unread) == ("jhub", (1, 33), [])
    assert ([node.name for node in facts.nodes], list(facts.catalog.gpus)) == (["gpu-1"], ["a100-80gb"])
    assert (facts.configured.cpu is not None, facts.requirements is not None) == (True, True)


async def test_of_nodes_only_names_and_conditions_are_kept(parsed: Parsed):
    facts, _ = await read(parsed)
    (node,) = facts.list_objects(ObjectKind.NODES)
    assert (get_object_name(node), sorted(node)) == ("gpu-1", ["metadata", "status"])


async def test_the_hub_is_known_by_its_pod_and_its_account_by_that(server: WatchServer, parsed: Parsed):
    server.put(HUB_PODS, named("hub-1", spec={"serviceAccountName": "own"}))
    facts, _ = await read(parsed)
    assert (facts.account, bool(facts.grants)) == (ServiceAccount("jhub", "own"), True)


async def test_of_several_pods_the_one_that_runs_tells_the_account(server: WatchServer, parsed: Parsed):
    for name, phase in (("hub-1", "Failed"), ("hub-2", "Pending"), ("hub-3", "Running")):
        server.put(HUB_PODS, named(name, spec={"serviceAccountName": f"of-{name}"}, status={"phase": phase}))
    facts, _ = await read(parsed)
    assert facts.account == ServiceAccount("jhub", "of-hub-3")


@pytest.mark.parametrize(
    ("values", "account", "expected"),
    [
        (None, None, None),
        (None, ServiceAccount("a", "b"), ServiceAccount("a", "b")),
        ({"hub": {"serviceAccount": {"name": "mine"}}}, None, ServiceAccount("jhub", "mine")),
    ],
)
async def test_without_a_hub_the_account_is_the_one_that_is_named(
    parsed: Parsed, values: Any, account: ServiceAccount | None, expected: ServiceAccount | None
):
    facts, _ = await read(parsed, values=values, account=account)
    assert facts.account == expected


async def test_what_may_not_be_read_is_named_and_what_is_not_served_known(server: WatchServer, parsed: Parsed):
    server.status["/apis/apps/v1/deployments"] = 403
    server.status["/apis/karpenter.sh/v1/nodepools"] = 404
    facts, unread = await read(parsed)
    assert (unread, ObjectKind.DEPLOYMENTS in facts.read) == ([ObjectKind.DEPLOYMENTS], False)
    assert facts.unserved == {ObjectKind.NODE_POOLS}


async def test_pods_of_device_plugins_are_read_by_their_selector(server: WatchServer, parsed: Parsed):
    selector = {"selector": {"matchLabels": {"app": "nvidia"}}}
    metadata = {"name": "nvidia-device-plugin", "namespace": "gpu", "uid": "u"}
    server.put(DAEMON_SETS, {"metadata": metadata, "spec": selector})
    server.put("/api/v1/namespaces/gpu/pods", named("plugin"))
    facts, _ = await read(parsed)
    assert list(map(get_object_name, facts.list_objects(ObjectKind.PLUGIN_PODS))) == ["plugin"]
    (request,) = server.asked("/api/v1/namespaces/gpu/pods", watch=False)
    assert request.query["labelSelector"] == "app=nvidia"


async def test_endpoints_are_read_of_webhooks_that_new_pods_need(server: WatchServer, parsed: Parsed):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    service = {"name": "rules", "namespace": "policy"}
    hook = {"name": "rules.example", "clientConfig": {"service": service}, "rules": [rule]}
    configuration = {"metadata": {"name": "rules", "uid": "u"}, "webhooks": [hook]}
    server.put("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration)
    path = "/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices"
    server.put(path, named("rules-1"))
    facts, _ = await read(parsed)
    assert list(map(get_object_name, facts.list_objects(ObjectKind.ENDPOINT_SLICES))) == ["rules-1"]
    (request,) = server.asked(path, watch=False)
    assert request.query["labelSelector"] == "kubernetes.io/service-name=rules"


async def test_secrets_are_read_only_where_they_are_named(server: WatchServer, parsed: Parsed):
    path = "/api/v1/namespaces/jhub/secrets"
    server.status[path] = 403
    facts, unread = await read(parsed, values={"imagePullSecrets": ["a"]})
    assert (unread, ObjectKind.SECRETS in facts.read, len(server.asked(path, watch=False))) == (
        [ObjectKind.SECRETS],
        False,
        1,
    )
    await read(parsed)
    assert len(server.asked(path, watch=False)) == 1


async def test_rights_that_could_not_be_asked_for_are_unread(server: WatchServer, parsed: Parsed):
    server.status["/apis/authorization.k8s.io/v1/subjectaccessreviews"] = 403
    facts, unread = await read(parsed, account=ServiceAccount("jhub", "hub"))
    assert (unread, dict(facts.allowed)) == ([ObjectKind.RIGHTS], {})


async def test_a_cluster_that_shows_no_nodes_cannot_be_looked_at(server: WatchServer, parsed: Parsed):
    server.status[NODES] = 403
    with pytest.raises(ClusterError):
        await read(parsed)


async def test_an_api_server_that_does_not_answer_is_reported(server: WatchServer, parsed: Parsed):
    server.status["/version"] = 503
    with pytest.raises(ClusterError, match="The API server does not answer"):
        await read(parsed)
