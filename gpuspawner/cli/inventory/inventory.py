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

from gpuspawner.cli.cluster.looking import Looked, Onlooker, add_looking, looking
from gpuspawner.cli.common.exits import FAILED, OK
from gpuspawner.cli.common.output import Paint, add_output, printable, write
from gpuspawner.cli.inventory.gpu_rows import TypeRow, type_rows, type_table
from gpuspawner.cli.inventory.granted import Granted, granted, granted_table
from gpuspawner.cli.inventory.node_rows import NodeRow, node_flags, node_rows, node_table
from gpuspawner.cli.values.chart import unread_settings
from gpuspawner.core.warnings.flags import Flag

_PACE_S = 0.5
"""Between two looks at what is known already; the cluster itself is watched."""
_CLEAR = "\x1b[H\x1b[2J"
_UNCOUNTED = (
    "How many {slug} there are cannot be told: a device plugin is not there to say so, or devices of a DRA driver "
    "cannot be counted."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is shown of one moment.

    :param nodes: None where they were not asked for, or cannot be read.
    :param unknown: sentences why something is not known.
    :param flags: what the hub tells its admins of nodes.
    :param rights: of the account as which the cluster is looked at; None where it is one's own.
    """

    types: tuple[TypeRow, ...]
    nodes: tuple[NodeRow, ...] | None
    unknown: tuple[str, ...]
    flags: tuple[Flag, ...] = ()
    rights: tuple[Granted, ...] | None = None
    account: str = ""

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        document: dict[str, Any] = {"gpu_types": [row.document() for row in self.types], "unknown": list(self.unknown)}
        if self.nodes is not None:
            document["nodes"] = [row.document() for row in self.nodes]
        document["concerns"] = [
            {
                "concern": flag.concern.value,
                "resource": flag.resource,
                "message": flag.message,
                "nodes": list(flag.nodes),
            }
            for flag in self.flags
        ]
        if self.rights is not None:
            document |= {"account": self.account, "rights": [each.document() for each in self.rights]}
        return document

    def table(self, paint: Paint) -> Iterator[str]:
        """Yield the lines for people."""
        yield from type_table(self.types, paint=paint)
        for sentence in self.unknown:
            yield paint.doubtful(f"? {printable(sentence)}")
        if self.nodes is not None:
            yield ""
            yield from node_table(self.nodes, paint=paint)
        elif self.flags:
            number = len({name for flag in self.flags for name in flag.nodes})
            yield paint.doubtful(f"Something is to be said of {number} node{'s' * (number > 1)}: see --nodes.")
        if self.rights is not None:
            yield ""
            yield paint.strong(f"Rights of the ServiceAccount {self.account}")
            yield from granted_table(self.rights, paint=paint)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_looking(parser)
    parser.add_argument("--nodes", action="store_true", help="show the nodes as well, and why one is left out")
    parser.add_argument("--watch", action="store_true", help="show it again whenever something changes")
    add_output(parser)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Show what there is, once or whenever it changes."""
    try:
        return asyncio.run(_run(arguments, out=out, notes=notes))
    except KeyboardInterrupt:
        return OK if arguments.watch else FAILED


def report(looked: Looked, *, nodes: bool = False, rights: tuple[Granted, ...] | None = None) -> Report:
    """Return what is to be shown of what was seen.

    :param nodes: the nodes as well.
    :param rights: of the account as which it was looked at.
    """
    types = type_rows(looked)
    inventory = looked.inventory
    unknown = [inventory.reason] if inventory.reason else []
    if inventory.nodes is not None:
        unknown += [_UNCOUNTED.format(slug=row.gpu.slug) for row in types if row.there_is.total is None]
    return Report(
        types=types,
        nodes=node_rows(looked) if nodes else None,
        unknown=tuple(map(str, unknown)),
        flags=node_flags(looked),
        rights=rights,
        account=looked.cluster.account,
    )


async def _run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    async with looking(arguments) as onlooker:
        notes.writelines(f"note: {each}\n" for each in unread_settings(onlooker.values.chart))
        if arguments.watch:
            await _watch(onlooker, arguments, out=out)
        own = await _rights(onlooker)
        looked = await onlooker.look()
        found = report(looked, nodes=arguments.nodes, rights=own)
        write(found.document(), output=arguments.output, out=out, table=found.table)
        return FAILED if looked.inventory.nodes is None else OK


async def _watch(onlooker: Onlooker, arguments: argparse.Namespace, *, out: TextIO) -> None:
    """Show what there is whenever it has changed, until somebody ends that."""
    shown: tuple[int, str] | None = None
    own = await _rights(onlooker)
    while True:
        looked = await onlooker.look()
        state = (looked.inventory.generation, looked.inventory.reason)
        if state != shown:
            found = report(looked, nodes=arguments.nodes, rights=own)
            _show(found, output=arguments.output, out=out, is_first=shown is None)
            shown = state
        await asyncio.sleep(_PACE_S)


async def _rights(onlooker: Onlooker) -> tuple[Granted, ...] | None:
    return await granted(onlooker.cluster) if onlooker.cluster.account else None


def _show(found: Report, *, output: str, out: TextIO, is_first: bool) -> None:
    """Write what has changed: over the last one in a terminal, below it anywhere else, one document a line in JSON."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"time": now, **found.document()}
    if output == "json":
        out.write(json.dumps(document, ensure_ascii=False) + "\n")
    elif output == "yaml":
        out.write("---\n")
        write(document, output=output, out=out, table=found.table)
    else:
        if out.isatty() and os.environ.get("TERM") != "dumb":
            out.write(_CLEAR)
        elif not is_first:
            out.write("\n")
        out.write(f"{now}\n")
        write(document, output=output, out=out, table=found.table)
    out.flush()
