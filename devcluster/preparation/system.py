"""The machine's programs and their versions, Debian packages, and room on its disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Debian keeps runc and ip where only root's PATH points, and not every root shell has it.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# A program that is linked dynamically names its loader in its first bytes (ELF's PT_INTERP).
ELF_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Debian package and the programs or files that show that it, or something as good, is there.

    :param programs: names on PATH or absolute paths; one of them is enough.
    :param static: the program must be statically linked (it runs in a container without libraries).
    :param files: paths of what is no program; one of them is enough, too.
    """

    name: str
    programs: tuple[str, ...] = ()
    static: bool = False
    files: tuple[str, ...] = ()

    def is_installed(self) -> bool:
        """Tell by the program, not by dpkg: Docker's packages bring a runc that Debian's would replace."""
        found = [path for path in map(which, self.programs) if path is not None]
        return any(not (self.static and _is_dynamic(path)) for path in found) or any(map(os.path.exists, self.files))


NODE_PACKAGES = (
    Package(name="runc", programs=("runc",)),
    Package(name="containernetworking-plugins", programs=("/usr/lib/cni/bridge", "/opt/cni/bin/bridge")),
    Package(name="busybox-static", programs=("busybox",), static=True),
    Package(name="iproute2", programs=("ip",)),
    Package(name="util-linux", programs=("nsenter",)),
    Package(name="mount", programs=("mount",)),
)
CHINESE_FONTS = (
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
)
BROWSER_PACKAGES = (
    Package(name="chromium", programs=("chromium",)),
    # devcluster/chromium.py says what for. Where a system brings the browser itself, that has to do.
    Package(name="chromium-headless-shell", programs=("chromium-headless-shell", "chromium")),
    # Pages in Chinese are boxes without one.
    Package(name="fonts-wqy-microhei", files=CHINESE_FONTS),
)


def which(program: str) -> Path | None:
    """Find a program as root would."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS))
    found = shutil.which(program, path=path)
    return Path(found) if found else None


def version_of(*command: str) -> tuple[int, ...] | None:
    """Run ``command`` and read the first dotted number it prints; None when there is no such program."""
    if which(command[0]) is None:
        return None
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part) for part in number.groups() if part) if number else None


def free_bytes(folder: Path) -> int:
    """Tell how much room is left where ``folder`` is or would be created."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def _is_dynamic(program: Path) -> bool:
    with program.open("rb") as file:
        return b"/ld-" in file.read(ELF_HEAD_BYTES)
