"""A JupyterHub spawner for Kubernetes with a form in which users pick GPUs by type and count.

The package loads its modules on first use, so that ``import gpuspawner`` loads neither JupyterHub nor pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuspawner.hub.spawner import GPUSpawner
    from gpuspawner.hub.startup import configure

    __version__: str

__all__ = ["GPUSpawner", "__version__", "configure"]


def __getattr__(name: str) -> Any:
    if name == "GPUSpawner":
        from gpuspawner.hub import spawner, startup  # noqa: PLC0415 - loaded when used

        # JupyterHub imports the spawner class before the hub's configuration is complete. `watch_hub_config` therefore
        # registers a check that runs after JupyterHub has read its configuration.
        startup.watch_hub_config()
        return spawner.GPUSpawner
    if name == "configure":
        from gpuspawner.hub import startup  # noqa: PLC0415 - loaded when used

        return startup.configure
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - loaded when used

        return version("gpuspawner")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted(__all__)
