"""Connects to the cluster of a kubeconfig, or to the cluster in which the command runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api
from kubernetes_asyncio.client.rest import ApiException
from kubernetes_asyncio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

from gpuspawner.core.errors import GPUSpawnerError, Problem
from gpuspawner.kube.client.api_requests import is_allowed

_TLS_CLOSE_S = 0.25
"""Seconds that a command waits at its end, so that its TLS connections can close.

A fixed time is necessary, because aiohttp does not signal when TLS connections are closed:
https://docs.aiohttp.org/en/stable/client_advanced.html#graceful-shutdown
"""
FIRST_READ_TIMEOUT_S = 15.0
"""Seconds that a command waits for the first read of nodes and pods, enough for a large cluster.

Nodes or pods that the command has not read by then count as unreadable.
"""


class ClusterError(GPUSpawnerError):
    """The command cannot connect to the cluster, read its nodes, or impersonate the ServiceAccount."""


_ACCOUNT_PATTERN = re.compile(r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?):(?:[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)", re.ASCII)
_REQUEST_TIMEOUT_S = 10.0
_KUBECONFIG_ERRORS = (yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError, AssertionError)
"""Exceptions that kubernetes_asyncio raises for a kubeconfig that is not YAML or has values of a wrong type."""
_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """A connection to a cluster.

    :param client: client for requests to any path of the API.
    :param core: client of the core/v1 API.
    :param namespace: namespace of the users' servers.
    :param account: ``namespace:name`` of the impersonated ServiceAccount, or empty.
    """

    client: ApiClient
    core: CoreV1Api
    namespace: str
    account: str = ""


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--kubeconfig``, ``--context`` and ``--namespace``."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="instead of $KUBECONFIG, ~/.kube/config or the pod's own")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig, instead of its current one")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", default="", help="where servers are started (the context's)"
    )


def add_account_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--as-hub`` and ``--service-account``."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--as-hub", action="store_true", help="see what the hub's ServiceAccount sees (needs the verb impersonate)"
    )
    either.add_argument(
        "--service-account", metavar="NAMESPACE:NAME", type=_parse_account, help="see what this ServiceAccount sees"
    )


@asynccontextmanager
async def connect_to_cluster(
    arguments: argparse.Namespace, *, hub_account: str = "hub"
) -> AsyncIterator[ClusterConnection]:
    """Connect to a cluster, and impersonate a ServiceAccount if the arguments name one.

    The connection is closed when the context ends.

    :param arguments: parsed arguments of :func:`add_cluster_arguments`, perhaps also of :func:`add_account_arguments`.
    :param hub_account: name of the hub's ServiceAccount, for ``--as-hub``.
    :raises ClusterError: the kubeconfig or ServiceAccount is missing, or the admin may not impersonate the account.
    """
    configuration = Configuration()
    context_namespace = await _configure(arguments, configuration)
    namespace = arguments.namespace or context_namespace
    account = getattr(arguments, "service_account", None) or ""
    if getattr(arguments, "as_hub", False):
        account = f"{namespace}:{hub_account}"
    try:
        async with ApiClient(configuration) as client:
            if account:
                await _impersonate(client, account)
            yield ClusterConnection(client=client, core=CoreV1Api(client), namespace=namespace, account=account)
    finally:
        await asyncio.sleep(_TLS_CLOSE_S)


async def _impersonate(client: ApiClient, account: str) -> None:
    """Make the client impersonate a ServiceAccount in every request.

    The requests name no groups, because the API server adds the groups of the ServiceAccount.
    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
    """
    if not _ACCOUNT_PATTERN.fullmatch(account):
        message = f"{account!r} is no ServiceAccount, written NAMESPACE:NAME."
        raise ClusterError(Problem(field="cluster", code="unknown_account", message=message))
    namespace, _, name = account.partition(":")
    attributes = {"verb": "impersonate", "resource": "serviceaccounts", "namespace": namespace, "name": name}
    # Check the right to impersonate first. Without this right, each later request fails with "forbidden", as if the
    # account had no rights.
    if await is_allowed(client, attributes, timeout_s=_REQUEST_TIMEOUT_S) is False:
        message = f"You may not impersonate the ServiceAccount {name} of the namespace {namespace}."
        raise ClusterError(Problem(field="cluster", code="forbidden", message=message))
    try:
        await CoreV1Api(client).read_namespaced_service_account(name, namespace, _request_timeout=_REQUEST_TIMEOUT_S)
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            message = f"There is no ServiceAccount {name} in the namespace {namespace} (--namespace)."
            raise ClusterError(Problem(field="cluster", code="unknown_account", message=message)) from error
    except (TimeoutError, OSError, aiohttp.ClientError):
        pass  # ignore a connection error: if it persists, the command's next request reports it
    client.set_default_header("Impersonate-User", f"system:serviceaccount:{account}")


def _parse_account(text: str) -> str:
    if not _ACCOUNT_PATTERN.fullmatch(text):
        message = f"{text!r} is not NAMESPACE:NAME"
        raise argparse.ArgumentTypeError(message)
    return text


async def _configure(arguments: argparse.Namespace, configuration: Configuration) -> str:
    """Configure a client, and return the namespace in which the command looks for servers by default.

    The kubeconfig configures the client, and its context names the namespace. If the kubeconfig is missing or
    incomplete, and the arguments name neither a kubeconfig nor a context, the function uses the ServiceAccount and the
    namespace of the command's pod.
    """
    file = str(arguments.kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION)
    try:
        _require_kubeconfig(file)
        loader = await config.load_kube_config(
            config_file=arguments.kubeconfig, context=arguments.context, client_configuration=configuration
        )
        context: Any = loader.current_context
        return str(context["context"].get("namespace") or "default")
    except config.ConfigException as error:
        if arguments.kubeconfig or arguments.context:
            raise _make_unreachable_error(error) from error
        try:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            return _read_own_namespace()
        except (config.ConfigException, OSError):
            raise _make_unreachable_error(error) from error
    except OSError as error:
        raise _make_unreachable_error(f"{error.filename or file}: {error.strerror or error}") from error
    except _KUBECONFIG_ERRORS as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise _make_unreachable_error(f"{file!r} is no kubeconfig, or a broken one ({why})") from error


def _require_kubeconfig(files: str) -> None:
    """Raise a clear error if no kubeconfig exists; kubernetes_asyncio would only say that a key is missing."""
    paths = [Path(file).expanduser() for file in files.split(os.pathsep) if file]
    if not any(path.exists() for path in paths):
        message = f"there is no kubeconfig {files!r}; --kubeconfig or $KUBECONFIG names another"
        raise config.ConfigException(message)


def _read_own_namespace() -> str:
    return _OWN_NAMESPACE.read_text(encoding="utf-8").strip()


def _make_unreachable_error(error: Exception | str) -> ClusterError:
    message = f"There is no cluster to look at: {error}"
    return ClusterError(Problem(field="cluster", code="unreachable", message=message))
