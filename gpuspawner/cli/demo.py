"""Run `make demo`: start Kubernetes and a JupyterHub with GPUs on this machine, to try gpuspawner.

The command needs a checkout of the project, because the wheel contains only the spawner: run the command in the
checkout, or name its folder. It also needs Debian, root, Python 3.11, Go 1.26 and Node.js 20 or newer. Ctrl-C stops it.

examples:
  gpuspawner demo
  gpuspawner demo --checkout ~/gpuspawner
  gpuspawner demo --context my-cluster       # in a cluster of your kubeconfig, instead of starting one
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TextIO

from gpuspawner.cli.common.output import FAILED, OK

_NEEDED = ("Makefile", "devcluster/demo/__main__.py")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner demo``."""
    parser.add_argument("--checkout", metavar="FOLDER", help="of the project; else this one, or the one installed from")
    parser.add_argument("--context", metavar="NAME", default="", help="cluster of your kubeconfig to use")


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Run ``make demo`` in a checkout of the project until it ends, and return the exit code."""
    checkout = next(filter(_is_checkout, _list_folders(arguments.checkout)), None)
    if checkout is None:
        notes.write("gpuspawner demo: there is no checkout of the project here; name its folder with --checkout\n")
        return FAILED
    command = ["make", "--directory", str(checkout), "--no-print-directory", "demo", f"PYTHON={sys.executable}"]
    if arguments.context:
        command.append(f"CONTEXT={arguments.context}")
    out.flush()
    try:
        # This command need not stop make: on Ctrl-C, the terminal also signals make, which ends its child processes.
        return OK if subprocess.run(command, check=False).returncode == 0 else FAILED
    except KeyboardInterrupt:
        return OK


def _list_folders(folder: str | None) -> tuple[Path, ...]:
    return (Path.cwd(), Path(__file__).resolve().parents[2]) if folder is None else (Path(folder).expanduser(),)


def _is_checkout(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _NEEDED)
