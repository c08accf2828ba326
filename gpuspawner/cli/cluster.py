"""The cluster that a command looks at: the one of a kubeconfig, or the one that the command runs in."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuspawner.core.errors import GPUSpawnerError, Problem

PATIENCE_S = 15.0
"""How long a first look at a large cluster may take."""


class ClusterError(GPUSpawnerError):
    """There is no cluster to look at, or it does not answer."""


_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A connection to a cluster.

    :param namespace: the one that servers are started in.
    """

    client: ApiClient
    core: CoreV1Api
    namespace: str


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which cluster, and where in it."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="instead of $KUBECONFIG, ~/.kube/config or the pod's own")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig, instead of its current one")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", default="", help="where servers are started (the context's)"
    )


@asynccontextmanager
async def connected(arguments: argparse.Namespace) -> AsyncIterator[Cluster]:
    """Connect to the cluster that the arguments name.

    :raises ClusterError: there is none.
    """
    configuration = Configuration()
    namespace = await _configure(arguments, configuration)
    async with ApiClient(configuration) as client:
        yield Cluster(client=client, core=CoreV1Api(client), namespace=arguments.namespace or namespace)


async def _configure(arguments: argparse.Namespace, configuration: Configuration) -> str:
    """Fill in where the cluster is, and return the namespace of the context.

    A kubeconfig comes before the pod's own account: whoever gives a pod one means it.
    """
    try:
        loader = await config.load_kube_config(
            config_file=arguments.kubeconfig, context=arguments.context, client_configuration=configuration
        )
        context: Any = loader.current_context
        return str(context["context"].get("namespace") or "default")
    except config.ConfigException as error:
        if arguments.kubeconfig or arguments.context:
            raise _unreachable(error) from error
        try:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            return _own_namespace()
        except (config.ConfigException, OSError):
            raise _unreachable(error) from error


def _own_namespace() -> str:
    return _OWN_NAMESPACE.read_text(encoding="utf-8").strip()


def _unreachable(error: Exception) -> ClusterError:
    message = f"There is no cluster to look at: {error}"
    return ClusterError(Problem(field="cluster", code="unreachable", message=message))
