"""Show GPU types and nodes of a cluster as the hub would see them: how many GPUs are free, and who may use them.

The program reads nodes and pods as a hub does, with the settings of your values if you give some. It shows one line for
each GPU type: how many GPUs exist, work and are free, and the most that one server could get now (LARGEST FREE).
A number that the program cannot read is shown as "?", never as 0, with the reason below the table.

With --nodes the program also shows every node, and why servers cannot use its GPUs. With --as-hub or --service-account
it reads with the rights of that ServiceAccount and lists these rights; your own account needs the verb "impersonate" on
serviceaccounts for this.

examples:
  gpuspawner inventory
  gpuspawner inventory -f values.yaml -f gpuspawner.yaml --nodes
  gpuspawner inventory -n jhub -f values.yaml --as-hub
  gpuspawner inventory --watch
  gpuspawner inventory --output json | jq '.gpu_types[] | select(.free == 0) | .slug'

exit codes: 0; 1 if the values are invalid; 3 if the nodes cannot be read. --watch ends with Ctrl-C and exit code 0.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import NoReturn, TextIO

from kubernetes_asyncio.client import CustomObjectsApi

from gpuspawner.cli.cluster.cluster_view import ClusterView, ClusterViewer, add_view_arguments, open_cluster_viewer
from gpuspawner.cli.cluster.connection import ClusterConnection
from gpuspawner.cli.cluster.shipped_roles import ResourceRight, read_shipped_rights
from gpuspawner.cli.common.output import (
    CLEAR_SCREEN,
    FAILED,
    OK,
    Document,
    Paint,
    add_output_argument,
    dump_json,
    format_columns,
    sanitize,
    write_result,
)
from gpuspawner.cli.inventory.rows import (
    describe_nodes,
    describe_types,
    format_node_table,
    format_type_table,
    list_node_flags,
)
from gpuspawner.cli.values.chart_config import list_unread_settings
from gpuspawner.core.cluster.dra import ResourceSlice, decode_resource_slice
from gpuspawner.kube.client.api_requests import APIUnavailableError, is_allowed, list_each
from gpuspawner.kube.resources.dra_devices import DRA_GROUP, RESOURCE_SLICES

_REQUEST_TIMEOUT_S = 10.0
_PER_PAGE = 50
"""Maximum number of ResourceSlices on one page of a list; a ResourceSlice has up to 128 devices."""
_MARKS = {True: "", False: ":no", None: ":?"}


async def check_granted_rights(cluster: ClusterConnection) -> list[Document]:
    """Return the rights that ``helm-values/rbac.yaml`` grants, and whether a ServiceAccount has them.

    ``allowed`` says of each verb whether the account may use it, with None if the API server did not answer. ``lost``
    says what does not work without the right, if the API server denies a verb.

    :param cluster: a connection that impersonates the ServiceAccount to check.
    """
    rights = [right for right in read_shipped_rights() if right.is_granted]
    return list(await asyncio.gather(*(_check_right(right, cluster) for right in rights)))


async def _check_right(right: ResourceRight, cluster: ClusterConnection) -> Document:
    resource, _, subresource = right.resource.partition("/")
    attributes = {"group": right.api_group, "resource": resource, "subresource": subresource}
    if right.scope != "cluster":
        attributes["namespace"] = right.elsewhere or cluster.namespace
    if right.name:
        attributes["name"] = right.name
    requests = (
        is_allowed(cluster.client, {**attributes, "verb": verb}, timeout_s=_REQUEST_TIMEOUT_S) for verb in right.verbs
    )
    answers = await asyncio.gather(*requests)
    return {
        "resource": right.resource,
        "api_group": right.api_group,
        "namespaced": right.scope != "cluster",
        "scope": right.scope,
        "allowed": dict(zip(right.verbs, answers, strict=True)),
        "lost": right.lost if False in answers else "",
    }


def format_rights_table(rights: Iterable[Document], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of a table of RBAC rights."""
    lines = [
        (
            f"{right['resource']}.{right['api_group']}" if right["api_group"] else right["resource"],
            right["scope"],
            " ".join(f"{verb}{_MARKS[answer]}" for verb, answer in right["allowed"].items()),
            right["lost"],
        )
        for right in rights
    ]
    yield from format_columns(lines, titles=("RIGHT ON", "IN", "VERBS", "LOST"), paint=paint)


_WATCH_INTERVAL_S = 0.5
"""Seconds between two checks of ``--watch`` for a change in the cluster.

A check is cheap: it compares states that the watches keep in memory.
"""
_UNCOUNTED = (
    "How many {slug} there are cannot be told: a device plugin is not there to say so, or devices of a DRA driver "
    "cannot be counted."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner inventory``."""
    add_view_arguments(parser)
    parser.add_argument("--nodes", action="store_true", help="show the nodes as well, and why one is left out")
    parser.add_argument("--watch", action="store_true", help="show it again whenever something changes")
    add_output_argument(parser)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Show the inventory once, or with ``--watch`` after each change, and return the exit code."""
    try:
        return asyncio.run(_run_async(arguments, out=out, notes=notes))
    except KeyboardInterrupt:
        return OK if arguments.watch else FAILED


def build_report(view: ClusterView, *, nodes: bool, rights: list[Document] | None, unread: str) -> Document:
    """Return the report about the state of a cluster at one moment.

    ``unknown`` has sentences that say why numbers are unknown, ``concerns`` the hub's warnings to admins about nodes.

    :param rights: rights of the impersonated ServiceAccount; None if the command impersonates none.
    :param unread: a sentence that says why the command cannot read ResourceSlices, or "".
    """
    types, inventory = describe_types(view), view.inventory
    unknown = [str(inventory.reason)] if inventory.reason else []
    if inventory.nodes is not None:
        unknown += [_UNCOUNTED.format(slug=gpu["slug"]) for gpu in types if gpu["total"] is None]
    document: Document = {"gpu_types": types, "unknown": [*unknown, unread] if unread else unknown}
    listed = describe_nodes(view) if nodes else None
    if listed is not None:
        document["nodes"] = listed
    document["concerns"] = [
        {"concern": flag.kind.value, "resource": flag.resource, "message": flag.message, "nodes": list(flag.nodes)}
        for flag in list_node_flags(view)
    ]
    if rights is not None:
        document |= {"account": view.cluster.account, "rights": rights}
    return document


def format_report(document: Document, paint: Paint) -> Iterator[str]:
    """Yield the lines of the report's tables."""
    yield from format_type_table(document["gpu_types"], paint=paint)
    for sentence in document["unknown"]:
        yield paint.style_warning(f"? {sanitize(sentence)}")
    if "nodes" in document:
        yield ""
        yield from format_node_table(document["nodes"], paint=paint)
    elif document["concerns"]:
        number = len({name for concern in document["concerns"] for name in concern["nodes"]})
        yield paint.style_warning(f"{number} node{'s need' if number > 1 else ' needs'} attention: see --nodes.")
    if "rights" in document:
        yield ""
        yield paint.style_title(f"Rights of the ServiceAccount {document['account']}")
        yield from format_rights_table(document["rights"], paint=paint)


async def _run_async(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    async with open_cluster_viewer(arguments) as viewer:
        notes.writelines(f"note: {sentence}\n" for sentence in list_unread_settings(viewer.values.chart))
        rights = await check_granted_rights(viewer.cluster) if viewer.cluster.account else None
        if arguments.watch:
            await _watch(viewer, arguments, rights=rights, out=out)
        view, unread = await _add_slices(await viewer.read_view())
        report = build_report(view, nodes=arguments.nodes, rights=rights, unread=unread)
        write_result(report, output=arguments.output, out=out, table=partial(format_report, report))
        return FAILED if view.inventory.nodes is None else OK


async def _add_slices(view: ClusterView) -> tuple[ClusterView, str]:
    """Return the view with all ResourceSlices, and a sentence that says why they cannot be read, or "".

    The hub's code reads them only if a DeviceClass names an extended resource for their devices.
    """
    method = partial(CustomObjectsApi(view.cluster.client).list_cluster_custom_object, DRA_GROUP, "v1", RESOURCE_SLICES)
    found: list[ResourceSlice] = []
    try:
        await list_each(
            method,
            lambda raw: found.append(decode_resource_slice(raw)),
            limit=_PER_PAGE,
            _request_timeout=_REQUEST_TIMEOUT_S,
        )
    except APIUnavailableError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return view, ""
        return view, f"Whether DRA drivers have devices on the nodes cannot be told: no ResourceSlices ({error})."
    return replace(view, slices=tuple(found)), ""


async def _watch(
    viewer: ClusterViewer, arguments: argparse.Namespace, *, rights: list[Document] | None, out: TextIO
) -> NoReturn:
    shown: tuple[int, str] | None = None
    while True:
        view = await viewer.read_view()
        state = (view.inventory.generation, view.inventory.reason)
        if state != shown:
            view, unread = await _add_slices(view)
            report = build_report(view, nodes=arguments.nodes, rights=rights, unread=unread)
            _write_update(report, output=arguments.output, out=out, is_first=shown is None)
            shown = state
        await asyncio.sleep(_WATCH_INTERVAL_S)


def _write_update(report: Document, *, output: str, out: TextIO, is_first: bool) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"time": now, **report}
    if output == "json":
        out.write(f"{dump_json(document)}\n")
    else:
        if output == "yaml":
            out.write("---\n")
        elif out.isatty() and os.environ.get("TERM") != "dumb":
            out.write(f"{CLEAR_SCREEN}{now}\n")
        else:
            out.write(f"{now}\n" if is_first else f"\n{now}\n")
        write_result(document, output=output, out=out, table=partial(format_report, report))
    out.flush()
