"""The demo's command line: start, say how to use it, wait, stop."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

from devcluster.demo.local import ADMIN, PASSWORD, LocalDemo, Report
from devcluster.demo.own_cluster import NAMESPACE, OwnClusterDemo
from devcluster.demo.values import LOCAL, OWN_CLUSTER
from devcluster.errors import DevclusterError

DEFAULT_PORT = 8000
CHECK_INTERVAL_S = 1.0
INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LOCAL_HINTS = (
    "the preset One GPU, then `!nvidia-smi` in a notebook: it lists the GPUs your server holds",
    "Home in the hub's menu: what your server has and when it ends; add a second server there, by a name",
    "a second user (another browser profile) with 4 × A100 40 GB: it waits and says why; stop the first, it starts",
    "H100 or another simulated type: what waiting for a full cluster looks like",
)
OWN_HINTS = (
    "the GPU types that the form has found by your nodes' labels",
    f"`kubectl --namespace {NAMESPACE} get pods`: hub and servers, all in a namespace of their own",
)


class Demo(Protocol):
    """The demo that the command line starts and stops.

    :ivar admin_password: the password of the admin's login.
    """

    admin_password: str

    def start(self) -> str:
        """Start everything and return the address to open."""

    def failure(self) -> str:
        """Say what has ended by itself, empty while all runs."""

    def stop(self) -> None:
        """Stop everything that was started."""


def main(arguments: Sequence[str]) -> int:
    """Run the demo until Ctrl-C or SIGTERM and return an exit status."""
    options = _parser().parse_args(arguments)
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:>5.0f} s  {line}", flush=True)

    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        demo, hints = _demo(options, report)
    except DevclusterError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    try:
        url = demo.start()
        report("ready")
        print(_instructions(url, hints, admin_password=demo.admin_password), flush=True)
        return _watch(demo)
    except DevclusterError as error:
        print(f"demo: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print(flush=True)
        return INTERRUPTED
    finally:
        _stop(demo)


def _demo(options: argparse.Namespace, report: Report) -> tuple[Demo, Sequence[str]]:
    """Return the demo that the options ask for, and what to try in it; nothing is started."""
    if options.context:
        values = options.values or OWN_CLUSTER
        return OwnClusterDemo(context=options.context, port=options.port, report=report, values=values), OWN_HINTS
    return LocalDemo(name=options.name, port=options.port, report=report, values=options.values or LOCAL), LOCAL_HINTS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m devcluster.demo", description="Run the gpuspawner demo.")
    parser.add_argument("--context", default="", help="use this cluster of your kubeconfig instead of starting one")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port of the hub on 127.0.0.1 (default 8000)")
    parser.add_argument("--values", type=Path, help="file with what users may ask for, instead of the demo's own")
    parser.add_argument("--name", default="demo", help="name of the cluster that is started (default demo)")
    return parser


def _instructions(url: str, hints: Sequence[str], *, admin_password: str) -> str:
    rows = [
        ("Open", url),
        ("Log in", f"any user name, for example ada; the password is {PASSWORD}"),
        # A browser keeps the cookies of the two addresses apart.
        (
            "Admin",
            f"{url.replace('127.0.0.1', 'localhost')}/hub/spawn in a second tab: its form ends with notes for admins;",
        ),
        ("", f"the user name is {ADMIN}, the password {admin_password}"),
        *zip(["Try", *[""] * len(hints)], hints, strict=False),
        ("Stop", "Ctrl-C: it stops everything that was started here"),
    ]
    lines = [f"  {name:<8}{text}" for name, text in rows]
    width = max(map(len, lines)) + 2
    return "\n".join(["", "=" * width, *lines, "=" * width, ""])


def _watch(demo: Demo) -> int:
    while not (failure := demo.failure()):
        time.sleep(CHECK_INTERVAL_S)
    print(f"demo: {failure}", file=sys.stderr, flush=True)
    return 1


def _stop(demo: Demo) -> None:
    # A second Ctrl-C would leave half of it running.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    try:
        demo.stop()
    except DevclusterError as error:
        print(f"demo: {error}", file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
