from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from gpuspawner.cli.cluster import ClusterError, add_cluster, connected

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
    add_cluster(parser)
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
    async with connected(parsed("--kubeconfig", str(path), *arguments)) as cluster:
        assert (cluster.namespace, cluster.client.configuration.host) == (namespace, "https://127.0.0.1:1")


async def test_no_cluster_is_told_in_a_sentence():
    with pytest.raises(ClusterError, match="There is no cluster to look at"):
        async with connected(parsed("--kubeconfig", "/no/such/file")):
            pass
