"""The admin's settings: read once when the hub starts, and refused with the YAML path when they are wrong."""

from gpuspawner.settings.parsing import Settings

__all__ = ["Settings"]
