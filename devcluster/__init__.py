"""A real local Kubernetes for tests and the demo: `from devcluster import Cluster`, or `python -m devcluster`.

Knows nothing of gpuspawner's inside and is not in its wheel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devcluster.cluster import Cluster
    from devcluster.errors import DevclusterError

__all__ = ["Cluster", "DevclusterError"]


def __getattr__(name: str) -> Any:
    # devcluster.build runs on a bare Python, before the libraries that the rest imports are installed.
    if name == "Cluster":
        from devcluster.cluster import Cluster  # noqa: PLC0415

        return Cluster
    if name == "DevclusterError":
        from devcluster.errors import DevclusterError  # noqa: PLC0415

        return DevclusterError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
