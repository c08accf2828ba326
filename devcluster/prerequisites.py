"""Prerequisites of the machine, checked before anything is started."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from devcluster import build
from devcluster.errors import DevclusterError

_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
_SEARCH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prerequisites:
    """The system's programs that a cluster uses."""

    runc: Path
    busybox: Path
    cni: Path


def require_root() -> None:
    """Raise DevclusterError where this is not root on Linux."""
    if sys.platform != "linux":
        raise DevclusterError("a local cluster needs Linux: its node runs containers in this machine's kernel")
    if os.geteuid() != 0:
        raise DevclusterError("a local cluster needs root (namespaces, cgroups, a network bridge): run this with sudo")


def check(*, binaries: bool = True) -> Prerequisites:
    """Find the system's programs; with `binaries`, Go too where something has to be built.

    Raises DevclusterError in one line that names what is missing and how to get it.
    """
    require_root()
    found = {
        "runc": _program("runc"),
        "busybox-static": _program("busybox"),
        "iproute2": _program("ip"),
        "util-linux": _program("nsenter"),
        "containernetworking-plugins": next((path for path in _CNI_FOLDERS if (path / "bridge").exists()), None),
    }
    if missing := [package for package, path in found.items() if path is None]:
        raise DevclusterError(f"packages are missing: apt-get install --no-install-recommends {' '.join(missing)}")
    if binaries and build.missing():
        build.require_go()
    return Prerequisites(
        runc=Path(str(found["runc"])),
        busybox=Path(str(found["busybox-static"])),
        cni=Path(str(found["containernetworking-plugins"])),
    )


def _program(name: str) -> Path | None:
    path = shutil.which(name, path=_SEARCH)
    return Path(path) if path else None
