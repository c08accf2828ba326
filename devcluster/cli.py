"""The command line: up, down, status, kubeconfig."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from devcluster.errors import DevclusterError

_EPILOG = """\
A cluster is found again by its name. State, logs and pid files lie below $GPUSPAWNER_STATE_DIR (default
/var/tmp/gpuspawner-devcluster), binaries and images below $GPUSPAWNER_CACHE_DIR (default ~/.cache/gpuspawner).
Needs root, Linux, runc, containernetworking-plugins and busybox-static; Go 1.26 until the binaries are built.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devcluster",
        description="A real local Kubernetes with GPU nodes, for tests and the demo.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="default", help="the cluster's name (default: %(default)s)")
    up = commands.add_parser("up", parents=[named], help="start a cluster, or find, repair or complete the running one")
    up.add_argument(
        "--simulated-nodes",
        type=Path,
        metavar="FILE",
        help="add the simulated nodes of this YAML file; devcluster/fleet.yaml is one and describes the format",
    )
    commands.add_parser("down", parents=[named], help="stop a cluster and leave nothing of it, whatever its state")
    status = commands.add_parser("status", help="show the clusters and their programs; fails where one does not run")
    status.add_argument("--name", help="only the cluster of this name")
    commands.add_parser("kubeconfig", parents=[named], help="print the path of the administrator's kubeconfig")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the process's exit status."""
    options = _parser().parse_args(arguments)
    try:
        _require_libraries()
        return _run(options)
    except DevclusterError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("devcluster: interrupted; `down` removes what was started", file=sys.stderr)
        return 130


def _require_libraries() -> None:
    modules = {"cryptography": "cryptography", "grpc": "grpcio", "kubernetes": "kubernetes", "yaml": "pyyaml"}
    if missing := [package for module, package in modules.items() if importlib.util.find_spec(module) is None]:
        raise DevclusterError(
            f"this Python lacks {', '.join(missing)}: use the virtual environment that CONTRIBUTING.md makes"
        )


def _run(options: argparse.Namespace) -> int:
    # --help and the message about missing libraries work on a bare Python.
    from devcluster import prerequisites, status  # noqa: PLC0415
    from devcluster.cluster import Cluster  # noqa: PLC0415

    prerequisites.require_root()  # also to look: the state is root's alone
    if options.command == "up":
        cluster = Cluster.up(options.name, options.simulated_nodes, report=_report)
        print(f"cluster {cluster.name} runs at {cluster.server}\nexport KUBECONFIG={cluster.kubeconfig}")
    elif options.command == "down":
        gone = Cluster.remove(options.name)
        print(f"cluster {options.name} is gone" if gone else f"there is no cluster {options.name}")
    elif options.command == "kubeconfig":
        found = Cluster.find(options.name)
        if found is None:
            raise DevclusterError(f"cluster {options.name} does not run: python -m devcluster up --name {options.name}")
        print(found.kubeconfig)
    else:
        return status.show(options.name)
    return 0


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
