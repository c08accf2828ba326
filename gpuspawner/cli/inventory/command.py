"""Show what the cluster has, as the hub would see it: GPU types, how many are free, who may use them, and the nodes.

Reads nodes and pods as a hub does, with the settings of your values if you give some, and shows one line for each GPU
type: how many there are, how many work, how many are free, and the most that one server could get now (LARGEST FREE).
What cannot be read is shown as "?", with the reason below; it is never shown as 0.

With --nodes it also shows every node, and why one is left out. With --as-hub (or --service-account) everything is read
with the rights of that account, and the rights are listed; that takes the verb "impersonate" on serviceaccounts.

examples:
  gpuspawner inventory
  gpuspawner inventory -f values.yaml -f gpuspawner.yaml --nodes
  gpuspawner inventory -n jhub -f values.yaml --as-hub
  gpuspawner inventory --watch
  gpuspawner inventory --output json | jq '.gpu_types[] | select(.free == 0) | .slug'

exit codes: 0; 1 where values are wrong; 3 where the nodes cannot be read. --watch ends with Ctrl-C and 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from gpuspawner.cli.cluster.cluster_view import ClusterView, ClusterViewer, add_view_arguments, open_cluster_viewer
from gpuspawner.cli.common.exits import FAILED, OK
from gpuspawner.cli.common.output import Paint, add_output_argument, sanitize, write_result
from gpuspawner.cli.inventory.gpu_type_rows import TypeRow, build_type_rows, format_type_table
from gpuspawner.cli.inventory.node_rows import NodeRow, build_node_rows, format_node_table, list_node_flags
from gpuspawner.cli.inventory.rbac_status import RightStatus, check_granted_rights, format_rights_table
from gpuspawner.cli.values.chart_config import list_unread_settings
from gpuspawner.core.warnings.nodes import AdminWarning

_WATCH_INTERVAL_S = 0.5
"""Between two looks at what is known already; the cluster itself is watched."""
_CLEAR = "\x1b[H\x1b[2J"
_UNCOUNTED = (
    "How many {slug} there are cannot be told: a device plugin is not there to say so, or devices of a DRA driver "
    "cannot be counted."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryReport:
    """What is shown of one moment.

    :param nodes: None where they were not asked for, or cannot be read.
    :param unknown: sentences why something is not known.
    :param flags: what the hub tells its admins of nodes.
    :param rights: of the account as which the cluster is looked at; None where it is one's own.
    """

    types: tuple[TypeRow, ...]
    nodes: tuple[NodeRow, ...] | None
    unknown: tuple[str, ...]
    flags: tuple[AdminWarning, ...] = ()
    rights: tuple[RightStatus, ...] | None = None
    account: str = ""

    def serialize(self) -> dict[str, Any]:
        """Return it as JSON has it."""
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
        """Yield the lines for people."""
        yield from format_type_table(self.types, paint=paint)
        for sentence in self.unknown:
            yield paint.style_warning(f"? {sanitize(sentence)}")
        if self.nodes is not None:
            yield ""
            yield from format_node_table(self.nodes, paint=paint)
        elif self.flags:
            number = len({name for flag in self.flags for name in flag.nodes})
            yield paint.style_warning(f"Something is to be said of {number} node{'s' * (number > 1)}: see --nodes.")
        if self.rights is not None:
            yield ""
            yield paint.style_title(f"Rights of the ServiceAccount {self.account}")
            yield from format_rights_table(self.rights, paint=paint)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_view_arguments(parser)
    parser.add_argument("--nodes", action="store_true", help="show the nodes as well, and why one is left out")
    parser.add_argument("--watch", action="store_true", help="show it again whenever something changes")
    add_output_argument(parser)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Show what there is, once or whenever it changes."""
    try:
        return asyncio.run(_run_async(arguments, out=out, notes=notes))
    except KeyboardInterrupt:
        return OK if arguments.watch else FAILED


def build_inventory_report(
    view: ClusterView, *, nodes: bool = False, rights: tuple[RightStatus, ...] | None = None
) -> InventoryReport:
    """Return what is to be shown of what was seen.

    :param nodes: the nodes as well.
    :param rights: of the account as which it was looked at.
    """
    types = build_type_rows(view)
    inventory = view.inventory
    unknown = [inventory.reason] if inventory.reason else []
    if inventory.nodes is not None:
        unknown += [_UNCOUNTED.format(slug=row.gpu.slug) for row in types if row.there_is.total is None]
    return InventoryReport(
        types=types,
        nodes=build_node_rows(view) if nodes else None,
        unknown=tuple(map(str, unknown)),
        flags=list_node_flags(view),
        rights=rights,
        account=view.cluster.account,
    )


async def _run_async(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    async with open_cluster_viewer(arguments) as onlooker:
        notes.writelines(f"note: {each}\n" for each in list_unread_settings(onlooker.values.chart))
        if arguments.watch:
            await _watch(onlooker, arguments, out=out)
        own = await _check_own_rights(onlooker)
        looked = await onlooker.read_view()
        found = build_inventory_report(looked, nodes=arguments.nodes, rights=own)
        write_result(found.serialize(), output=arguments.output, out=out, table=found.format_lines)
        return FAILED if looked.inventory.nodes is None else OK


async def _watch(viewer: ClusterViewer, arguments: argparse.Namespace, *, out: TextIO) -> None:
    """Show what there is whenever it has changed, until somebody ends that."""
    shown: tuple[int, str] | None = None
    own = await _check_own_rights(viewer)
    while True:
        looked = await viewer.read_view()
        state = (looked.inventory.generation, looked.inventory.reason)
        if state != shown:
            found = build_inventory_report(looked, nodes=arguments.nodes, rights=own)
            _write_update(found, output=arguments.output, out=out, is_first=shown is None)
            shown = state
        await asyncio.sleep(_WATCH_INTERVAL_S)


async def _check_own_rights(viewer: ClusterViewer) -> tuple[RightStatus, ...] | None:
    return await check_granted_rights(viewer.cluster) if viewer.cluster.account else None


def _write_update(found: InventoryReport, *, output: str, out: TextIO, is_first: bool) -> None:
    """Write what has changed: over the last one in a terminal, below it anywhere else, one document a line in JSON."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"time": now, **found.serialize()}
    if output == "json":
        out.write(json.dumps(document, ensure_ascii=False) + "\n")
    elif output == "yaml":
        out.write("---\n")
        write_result(document, output=output, out=out, table=found.format_lines)
    else:
        if out.isatty() and os.environ.get("TERM") != "dumb":
            out.write(_CLEAR)
        elif not is_first:
            out.write("\n")
        out.write(f"{now}\n")
        write_result(document, output=output, out=out, table=found.format_lines)
    out.flush()
