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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, NoReturn, TextIO

from kubernetes_asyncio.client import CustomObjectsApi

from gpuspawner.cli.cluster.cluster_view import ClusterView, ClusterViewer, add_view_arguments, open_cluster_viewer
from gpuspawner.cli.cluster.connection import ClusterConnection
from gpuspawner.cli.cluster.shipped_roles import ResourceRight, read_shipped_rights
from gpuspawner.cli.common.output import (
    CLEAR_SCREEN,
    FAILED,
    OK,
    Paint,
    add_output_argument,
    dump_json,
    format_columns,
    sanitize,
    write_result,
)
from gpuspawner.cli.inventory.rows import (
    NodeRow,
    TypeRow,
    build_node_rows,
    build_type_rows,
    format_node_table,
    format_type_table,
    list_node_flags,
)
from gpuspawner.cli.values.chart_config import list_unread_settings
from gpuspawner.core.cluster.dra import ResourceSlice, decode_resource_slice
from gpuspawner.core.warnings.nodes import AdminWarning
from gpuspawner.kube.client.api_requests import APIUnavailableError, is_allowed, list_each
from gpuspawner.kube.resources.dra_devices import DRA_GROUP, RESOURCE_SLICES

_REQUEST_TIMEOUT_S = 10.0
_PER_PAGE = 50
"""Maximum number of ResourceSlices on one page of a list; a ResourceSlice has up to 128 devices."""
_MARKS = {True: "", False: ":no", None: ":?"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RightStatus:
    """A right of ``helm-values/rbac.yaml``, and whether a ServiceAccount has it.

    :param right: the right that the file grants.
    :param allowed: verb of the right → whether the account may use this verb, or None if the API server did not answer.
    """

    right: ResourceRight
    allowed: Mapping[str, bool | None]

    @property
    def lost(self) -> str:
        """Text that says what does not work without the right, or "" if the API server denies no verb of the right."""
        return self.right.lost if False in self.allowed.values() else ""

    def serialize(self) -> dict[str, Any]:
        """Return the RBAC right as a JSON object."""
        right = self.right
        return {
            "resource": right.resource,
            "api_group": right.api_group,
            "namespaced": right.scope != "cluster",
            "allowed": dict(self.allowed),
            "lost": self.lost,
        }

    def format_cells(self) -> tuple[str, ...]:
        """Return the cells of the right's line in the table."""
        right = self.right
        name = f"{right.resource}.{right.api_group}" if right.api_group else right.resource
        verbs = " ".join(f"{verb}{_MARKS[answer]}" for verb, answer in self.allowed.items())
        return name, right.scope, verbs, self.lost


async def check_granted_rights(cluster: ClusterConnection) -> tuple[RightStatus, ...]:
    """Return the status of each right that ``helm-values/rbac.yaml`` grants.

    :param cluster: a connection that impersonates the ServiceAccount to check.
    """
    return tuple(
        await asyncio.gather(*(_check_right(right, cluster) for right in read_shipped_rights() if right.is_granted))
    )


def format_rights_table(found: Iterable[RightStatus], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of a table of RBAC rights."""
    yield from format_columns(
        (each.format_cells() for each in found), titles=("RIGHT ON", "IN", "VERBS", "LOST"), paint=paint
    )


async def _check_right(right: ResourceRight, cluster: ClusterConnection) -> RightStatus:
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
    return RightStatus(right=right, allowed=dict(zip(right.verbs, answers, strict=True)))


_WATCH_INTERVAL_S = 0.5
"""Seconds between two checks of ``--watch`` for a change in the cluster.

A check is cheap: it compares states that the watches keep in memory.
"""
_UNCOUNTED = (
    "How many {slug} there are cannot be told: a device plugin is not there to say so, or devices of a DRA driver "
    "cannot be counted."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryReport:
    """GPU types, nodes and rights at one moment.

    :param types: rows of the table of GPU types.
    :param nodes: rows of the table of nodes; None without ``--nodes``, or if the command cannot read nodes.
    :param unknown: sentences that say why numbers are unknown.
    :param flags: the hub's warnings to admins about nodes.
    :param rights: rights of the impersonated ServiceAccount; None if the command impersonates none.
    :param account: ``namespace:name`` of the impersonated ServiceAccount, or empty.
    """

    types: tuple[TypeRow, ...]
    nodes: tuple[NodeRow, ...] | None
    unknown: tuple[str, ...]
    flags: tuple[AdminWarning, ...] = ()
    rights: tuple[RightStatus, ...] | None = None
    account: str = ""

    def serialize(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        document: dict[str, Any] = {"gpu_types": [row.serialize() for row in self.types], "unknown": list(self.unknown)}
        if self.nodes is not None:
            document["nodes"] = [row.serialize() for row in self.nodes]
        document["concerns"] = [
            {
                "concern": flag.kind.value,
                "resource": flag.resource,
                "message": flag.message,
                "nodes": list(flag.nodes),
            }
            for flag in self.flags
        ]
        if self.rights is not None:
            document |= {"account": self.account, "rights": [each.serialize() for each in self.rights]}
        return document

    def format_lines(self, paint: Paint) -> Iterator[str]:
        """Yield the lines of the tables.

        :param paint: the colors for the output.
        """
        yield from format_type_table(self.types, paint=paint)
        for sentence in self.unknown:
            yield paint.style_warning(f"? {sanitize(sentence)}")
        if self.nodes is not None:
            yield ""
            yield from format_node_table(self.nodes, paint=paint)
        elif self.flags:
            number = len({name for flag in self.flags for name in flag.nodes})
            yield paint.style_warning(f"{number} node{'s need' if number > 1 else ' needs'} attention: see --nodes.")
        if self.rights is not None:
            yield ""
            yield paint.style_title(f"Rights of the ServiceAccount {self.account}")
            yield from format_rights_table(self.rights, paint=paint)


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


def build_inventory_report(
    view: ClusterView, *, nodes: bool = False, rights: tuple[RightStatus, ...] | None = None, unread: str = ""
) -> InventoryReport:
    """Return the report about the state of a cluster at one moment.

    :param view: the state of the cluster.
    :param nodes: whether to include the nodes.
    :param rights: rights of the impersonated ServiceAccount; None if the command impersonates none.
    :param unread: a sentence that says why the command cannot read ResourceSlices, or "".
    """
    types = build_type_rows(view)
    inventory = view.inventory
    unknown = [inventory.reason] if inventory.reason else []
    if inventory.nodes is not None:
        unknown += [_UNCOUNTED.format(slug=row.gpu.slug) for row in types if row.there_is.total is None]
    if unread:
        unknown.append(unread)
    return InventoryReport(
        types=types,
        nodes=build_node_rows(view) if nodes else None,
        unknown=tuple(map(str, unknown)),
        flags=list_node_flags(view),
        rights=rights,
        account=view.cluster.account,
    )


async def _run_async(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    async with open_cluster_viewer(arguments) as viewer:
        notes.writelines(f"note: {each}\n" for each in list_unread_settings(viewer.values.chart))
        rights = await check_granted_rights(viewer.cluster) if viewer.cluster.account else None
        if arguments.watch:
            await _watch(viewer, arguments, rights=rights, out=out)
        view, unread = await _add_slices(await viewer.read_view())
        report = build_inventory_report(view, nodes=arguments.nodes, rights=rights, unread=unread)
        write_result(report.serialize(), output=arguments.output, out=out, table=report.format_lines)
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
    viewer: ClusterViewer, arguments: argparse.Namespace, *, rights: tuple[RightStatus, ...] | None, out: TextIO
) -> NoReturn:
    shown: tuple[int, str] | None = None
    while True:
        view = await viewer.read_view()
        state = (view.inventory.generation, view.inventory.reason)
        if state != shown:
            view, unread = await _add_slices(view)
            report = build_inventory_report(view, nodes=arguments.nodes, rights=rights, unread=unread)
            _write_update(report, output=arguments.output, out=out, is_first=shown is None)
            shown = state
        await asyncio.sleep(_WATCH_INTERVAL_S)


def _write_update(report: InventoryReport, *, output: str, out: TextIO, is_first: bool) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"time": now, **report.serialize()}
    if output == "json":
        out.write(f"{dump_json(document)}\n")
    else:
        if output == "yaml":
            out.write("---\n")
        elif out.isatty() and os.environ.get("TERM") != "dumb":
            out.write(f"{CLEAR_SCREEN}{now}\n")
        else:
            out.write(f"{now}\n" if is_first else f"\n{now}\n")
        write_result(document, output=output, out=out, table=report.format_lines)
    out.flush()
