"""Runs inside a notebook pod and prints as JSON what the pod can do with GPU devices.

python probe.py [MAJOR:MINOR…]    also tries these, through device files it makes itself
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from pathlib import Path

PATTERNS = ("nvidia[0-9]*", "nvidia-caps/nvidia-cap[0-9]*", "dri/renderD[0-9]*")


def attempt(path: Path) -> str:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "opened"


def forge(number: str) -> str:
    major, minor = map(int, number.split(":"))
    path = Path(f"/dev/forged-{major}-{minor}")
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    try:
        return attempt(path)
    finally:
        path.unlink()


def describe(path: Path) -> dict[str, str]:
    device = path.stat().st_rdev
    return {"number": f"{os.major(device)}:{os.minor(device)}", "answer": attempt(path)}


found = {str(path): describe(path) for pattern in PATTERNS for path in sorted(Path("/dev").glob(pattern))}
forged = {number: forge(number) for number in sys.argv[1:]}
sys.stdout.write(json.dumps({"devices": found, "forged": forged, "variable": os.environ.get("NVIDIA_VISIBLE_DEVICES")}))
