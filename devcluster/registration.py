"""Which kubelet the GPUs are registered with: what the device plugin notes and `up` waits for."""

from __future__ import annotations

import datetime
from pathlib import Path

from devcluster.run_dir import write

PLUGINS = Path("/var/lib/kubelet/device-plugins")
"""Where the kubelet looks for device plugins, whatever its --root-dir (pluginapi.DevicePluginPath)."""


def kubelet_identity(plugins: Path = PLUGINS) -> str:
    """Return what changes when the kubelet restarts, its socket's inode and creation time; empty without a kubelet."""
    try:
        found = (plugins / "kubelet.sock").stat()
    except FileNotFoundError:
        return ""
    return f"{found.st_ino} {found.st_ctime_ns}"


def note(devices: Path, identity: str) -> None:
    """Note that all GPUs are registered with this kubelet."""
    write(devices / "registered", identity)


def noted_at(devices: Path) -> datetime.datetime:
    """Return when that was; raises FileNotFoundError before there was one."""
    return datetime.datetime.fromtimestamp((devices / "registered").stat().st_mtime, datetime.UTC)


def noted(devices: Path) -> str:
    """Return the kubelet that all GPUs were registered with last; empty before there was one."""
    try:
        return (devices / "registered").read_text()
    except FileNotFoundError:
        return ""
