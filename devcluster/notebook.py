"""Read-only mounts of this machine that a pod needs to run the Python that runs this."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ssl")


def volumes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return Kubernetes volumes and volume mounts: the system's libraries, the virtual environment, the interpreter."""
    paths = [Path(path) for path in (*_SYSTEM, sys.prefix, sys.base_prefix)]
    # A link on the way to the interpreter has to lead somewhere in the pod too.
    paths.append(Path(sys.base_prefix).resolve())
    wanted: list[Path] = []
    for path in paths:
        # /usr holds the interpreter where that is the system's own.
        if path.exists() and not any(path.is_relative_to(there) for there in wanted):
            wanted.append(path)
    named = [
        (f"host{'-'.join(path.parts).replace('/', '').replace('.', '').replace('_', '-').lower()}", str(path))
        for path in wanted
    ]
    return (
        [{"name": name, "hostPath": {"path": path}} for name, path in named],
        [{"name": name, "mountPath": path, "readOnly": True} for name, path in named],
    )
