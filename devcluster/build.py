"""Builds the cluster's programs from Go modules, once, into a cache outside the repository.

Standard library only: it runs before there is a virtual environment. Each folder below devcluster/tools holds a go.mod
that names its programs with `tool` directives and pins every dependency; there is no Go code of our own.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.run_dir import cache_dir

_TOOLS = Path(__file__).with_name("tools")
_KUBERNETES_VERSION = "1.36.3"
_HEARTBEAT_S = 30.0
_SHORT_S = 90.0

Report = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One program, the module that pins it, and about how long it takes to build."""

    module: str
    package: str
    seconds: int
    """On two idle cores, with nothing cached, after the tools above it in TOOLS; downloads included."""


TOOLS = {
    "etcd": Tool(module="kubernetes", package="go.etcd.io/etcd/server/v3", seconds=60),
    "kube-apiserver": Tool(module="kubernetes", package="k8s.io/kubernetes/cmd/kube-apiserver", seconds=220),
    "kube-scheduler": Tool(module="kubernetes", package="k8s.io/kubernetes/cmd/kube-scheduler", seconds=25),
    "kube-controller-manager": Tool(
        module="kubernetes", package="k8s.io/kubernetes/cmd/kube-controller-manager", seconds=50
    ),
    "kubelet": Tool(module="kubernetes", package="k8s.io/kubernetes/cmd/kubelet", seconds=60),
    "kwok": Tool(module="kubernetes", package="sigs.k8s.io/kwok/cmd/kwok", seconds=20),
    "containerd": Tool(module="containerd", package="github.com/containerd/containerd/v2/cmd/containerd", seconds=80),
    "containerd-shim-runc-v2": Tool(
        module="containerd", package="github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", seconds=5
    ),
    "ctr": Tool(module="containerd", package="github.com/containerd/containerd/v2/cmd/ctr", seconds=12),
    "helm": Tool(module="helm", package="helm.sh/helm/v4/cmd/helm", seconds=140),
    "karpenter": Tool(module="karpenter", package="sigs.k8s.io/karpenter/kwok", seconds=215),
    "kueue": Tool(module="kueue", package="sigs.k8s.io/kueue/cmd/kueue", seconds=330),
}
"""In the order to build them: the control plane first, then what shares its packages."""

CLUSTER = tuple(name for name, tool in TOOLS.items() if tool.module in {"kubernetes", "containerd"})
"""The programs that `up` needs."""


def _link_flags(module: str) -> str:
    stripped = "-s -w"
    if module != "kubernetes":
        return stripped
    # Without a version at link time the programs say v0.0.0-master, which clients cannot parse.
    version = "k8s.io/component-base/version"
    major, minor, _ = _KUBERNETES_VERSION.split(".")
    values = {"gitVersion": f"v{_KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join([stripped, *(f"-X {version}.{key}={value}" for key, value in values.items())])


def folder() -> Path:
    """Return the folder of the programs that the present go.mod and go.sum files describe."""
    digest = hashlib.sha256()
    for path in sorted(_TOOLS.glob("*/go.*")):
        digest.update(path.read_bytes())
    for module in sorted({tool.module for tool in TOOLS.values()}):
        digest.update(_link_flags(module).encode())
    return cache_dir() / "bin" / digest.hexdigest()[:16]


def missing(names: Iterable[str] = CLUSTER) -> tuple[str, ...]:
    """Return which of these programs are not built yet, in the order to build them.

    Raises DevclusterError for a name that is not in TOOLS.
    """
    wanted = set(names)
    if unknown := wanted - set(TOOLS):
        raise DevclusterError(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(TOOLS)}")
    return tuple(name for name in TOOLS if name in wanted and not (folder() / name).exists())


def ensure(names: Iterable[str] = CLUSTER, *, report: Report = print) -> Path:
    """Build what is missing of these programs and return the folder that holds them.

    Two callers at once wait for each other. Raises DevclusterError where Go is missing or a build fails.
    """
    wanted = tuple(names)
    if not missing(wanted):
        return folder()
    require_go()
    folder().mkdir(parents=True, exist_ok=True)
    with _lock(report):
        _build(missing(wanted), report)
    return folder()


def sources(name: str) -> Path:
    """Return the folder of the Go module that a program is built from, for its files besides the program.

    Raises DevclusterError where Go cannot find it.
    """
    tool = TOOLS[name]
    done = subprocess.run(
        ["go", "list", "-f", "{{.Module.Dir}}", tool.package],
        cwd=_TOOLS / tool.module,
        env=_go_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise DevclusterError(f"Go does not find the sources of {name}: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def require_go() -> None:
    """Raise DevclusterError, saying how to get it, where Go is missing."""
    if shutil.which("go") is None:
        raise DevclusterError("Go is missing: install Go 1.26 or newer from https://go.dev/dl/ and put `go` on PATH")


@contextlib.contextmanager
def _lock(report: Report) -> Iterator[None]:
    with (cache_dir() / "bin" / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that builds the same programs")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(names: tuple[str, ...], report: Report) -> None:
    if not names:
        return
    left = sum(TOOLS[name].seconds for name in names)
    report(
        f"building {len(names)} programs once from Go modules into {folder()}: {_minutes(left)} on two idle cores with "
        "nothing cached, seconds where Go's build cache is warm"
    )
    begin = time.monotonic()
    expected = 0.0
    with _downloading(names):
        for number, name in enumerate(names, 1):
            # The builds so far show how fast this machine is.
            pace = (time.monotonic() - begin) / expected if expected else 1.0
            report(f"[{number}/{len(names)}] building {name}, {_minutes(left * pace)} to go")
            start = time.monotonic()
            _go_build(name, report)
            report(f"[{number}/{len(names)}] built {name} in {time.monotonic() - start:.0f} s")
            left -= TOOLS[name].seconds
            expected += TOOLS[name].seconds
    report(f"built {len(names)} programs in {_minutes(time.monotonic() - begin)}")


@contextlib.contextmanager
def _downloading(names: tuple[str, ...]) -> Iterator[None]:
    """Have Go fetch what all programs are made of while the first is compiled; else each would wait for its own.

    The build reports a module that cannot be fetched.
    """
    later: dict[str, list[str]] = {}
    for name in names[1:]:
        later.setdefault(TOOLS[name].module, []).append(TOOLS[name].package)
    fetching = [
        subprocess.Popen(
            ["go", "list", "-deps", "-f", "", *packages],
            cwd=_TOOLS / module,
            env=_go_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for module, packages in later.items()
    ]
    try:
        yield
    finally:
        for process in fetching:
            process.terminate()
            process.wait()


def _go_build(name: str, report: Report) -> None:
    tool = TOOLS[name]
    part = folder() / f".{name}"
    options = ["-trimpath", "-buildvcs=false", "-ldflags", _link_flags(tool.module), "-o", str(part)]
    start = time.monotonic()
    with subprocess.Popen(
        ["go", "build", *options, tool.package],
        cwd=_TOOLS / tool.module,
        env=_go_environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            errors = _follow(process, lambda: report(f"{name}: {time.monotonic() - start:.0f} s so far"))
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        reasons = [line for line in errors.splitlines() if line and not line.startswith("go: downloading")]
        raise DevclusterError(f"building {name} failed: {' | '.join(reasons[-3:]) or process.returncode}")
    part.replace(folder() / name)


def _go_environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}


def _follow(process: subprocess.Popen[str], heartbeat: Callable[[], object]) -> str:
    """Wait for the process, with a sign of life every half minute, and return what it wrote to stderr."""
    while True:
        try:
            return process.communicate(timeout=_HEARTBEAT_S)[1]
        except subprocess.TimeoutExpired:
            heartbeat()


def _minutes(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < _SHORT_S else f"about {seconds / 60:.0f} min"


def main(arguments: list[str] | None = None) -> int:
    """Build the programs named on the command line and print the folder that holds them."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.build", description=main.__doc__)
    parser.add_argument(
        "name", nargs="*", default=list(CLUSTER), help=f"one of {', '.join(TOOLS)} (default: what a cluster needs)"
    )
    try:
        print(ensure(parser.parse_args(arguments).name, report=lambda text: print(text, file=sys.stderr, flush=True)))
    except DevclusterError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
