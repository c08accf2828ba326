from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from gpuspawner.cli.cluster.connection import (
    ClusterError,
    add_account_arguments,
    add_cluster_arguments,
    connect_to_cluster,
)
from tests.unit.kube.watch_server import WatchServer

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: one
contexts:
  - {name: one, context: {cluster: c, user: u, namespace: jhub}}
  - {name: two, context: {cluster: c, user: u}}
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_cluster_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [((), "jhub"), (("--context", "two"), "default"), (("--namespace", "mine"), "mine")],
)
async def test_the_namespace_is_the_one_named_or_that_of_the_context(
    tmp_path: Path, arguments: tuple[str, ...], namespace: str
):
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    async with connect_to_cluster(parsed("--kubeconfig", str(path), *arguments)) as cluster:
        assert (cluster.namespace, cluster.client.configuration.host) == (namespace, "https://127.0.0.1:1")


async def test_no_cluster_is_reported_in_a_sentence(caplog: pytest.LogCaptureFixture):
    with pytest.raises(ClusterError) as refused:
        async with connect_to_cluster(parsed("--kubeconfig", "/no/such/file")):
            pass
    assert refused.value.problems[0].message == (
        "There is no cluster to look at: there is no kubeconfig '/no/such/file'; --kubeconfig or $KUBECONFIG names "
        "another"
    )
    assert caplog.records == []


async def test_a_folder_in_the_place_of_a_kubeconfig_is_reported(tmp_path: Path):
    with pytest.raises(ClusterError, match=f"There is no cluster to look at: {tmp_path}: Is a directory"):
        async with connect_to_cluster(parsed("--kubeconfig", str(tmp_path))):
            pass


@pytest.mark.parametrize(
    "text",
    [
        *("", "a: [", "x", "[]", "contexts: 3", "\x00", "{current-context: c, contexts: [3]}"),
        "{current-context: c, contexts: [{name: c, context: 3}]}",
        KUBECONFIG.replace('"https://127.0.0.1:1"', "3"),
    ],
)
async def test_a_broken_kubeconfig_is_reported_in_a_sentence(tmp_path: Path, text: str):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ClusterError) as refused:
        async with connect_to_cluster(parsed("--kubeconfig", str(path))):
            pass
    message = refused.value.problems[0].message
    assert message.startswith(f"There is no cluster to look at: '{path}' is no kubeconfig, or a broken one (")
    assert "\n" not in message


def as_whom(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_cluster_arguments(parser)
    add_account_arguments(parser)
    return parser.parse_args(arguments)


async def test_every_request_is_made_as_the_account_that_is_named(kubeconfig: str, server: WatchServer):
    server.bodies["/api/v1/namespaces/jhub/serviceaccounts/mine"] = "{}"
    named = as_whom("--kubeconfig", kubeconfig, "--service-account", "jhub:mine")
    async with connect_to_cluster(named) as cluster:
        await cluster.core.list_node()
    assert cluster.account == "jhub:mine"
    assert [each.headers.get("Impersonate-User") for each in server.requests] == [
        None,  # may the one who connects do that at all?
        None,  # is there such an account?
        "system:serviceaccount:jhub:mine",
    ]


async def test_an_account_that_may_not_impersonate_gets_an_error(kubeconfig: str, server: WatchServer):
    server.denied = {("impersonate", "serviceaccounts")}
    with pytest.raises(ClusterError, match="You may not impersonate the ServiceAccount hub of the namespace jhub"):
        async with connect_to_cluster(as_whom("--kubeconfig", kubeconfig, "--as-hub")):
            pass


async def test_an_account_that_is_not_there_is_reported_so(kubeconfig: str, server: WatchServer):
    server.status["/api/v1/namespaces/jhub/serviceaccounts/hub"] = 404
    with pytest.raises(ClusterError, match="There is no ServiceAccount hub in the namespace jhub"):
        async with connect_to_cluster(as_whom("--kubeconfig", kubeconfig, "--as-hub")):
            pass


@pytest.mark.parametrize("named", ["hub", "a:b:c", "a:", ":b", "a:b\n", "A:b", "a:b\r\nX-Header: 1"])
def test_what_names_no_account_is_a_wrong_call(named: str):
    with pytest.raises(SystemExit):
        as_whom("--service-account", named)
