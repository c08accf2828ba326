"""``gpuspawner``: the program, and what its sub-commands have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpuspawner import __version__
from gpuspawner.cli import convert
from gpuspawner.core.errors import GPUSpawnerError

OK, FAILED = 0, 1
"""Exit codes; argparse has 2 for a wrong call."""

_COMMANDS = {"convert": convert}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return the exit code: 0 it worked, 1 it did not, 2 it was called wrongly."""
    parsed = _parser().parse_args(arguments)
    try:
        parsed.run(parsed, out=sys.stdout, notes=sys.stderr)
    except BrokenPipeError:  # whoever read the output has seen enough
        return FAILED
    except (GPUSpawnerError, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"gpuspawner {parsed.command}: {error}\n")
        return FAILED
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuspawner", description="Tools for admins of a JupyterHub whose users pick GPUs."
    )
    parser.add_argument("--version", action="version", version=f"gpuspawner {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in _COMMANDS.items():
        summary, _, details = (module.__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary}\n\n{details}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser
