"""Reads the demo's settings out of files that look like Helm values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.errors import DevclusterError

LOCAL = Path(__file__).with_name("values.yaml")
OWN_CLUSTER = Path(__file__).with_name("values-own-cluster.yaml")


@dataclass(frozen=True, slots=True)
class Values:
    """One file of values.

    :param path: named in messages.
    """

    path: Path
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Values:
        """Read a file.

        :raises DevclusterError: it cannot be read or is no mapping.
        """
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DevclusterError(f"cannot read the settings: {error}") from error
        except yaml.YAMLError as error:
            raise DevclusterError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
        if not isinstance(content, dict):
            raise DevclusterError(f"{path} is no mapping")
        return cls(path, content)

    def hub_sections(self) -> dict[str, dict[str, Any]]:
        """Return the sections below ``hub.config`` (``GPUSpawner``, ``KubeSpawner`` …).

        :raises DevclusterError: there is no such mapping.
        """
        sections = self._mapping("hub.config")
        return {name: dict(self._mapping(f"hub.config.{name}")) for name in sections}

    def image(self, place: str) -> str:
        """Return the image whose ``name`` and ``tag`` stand at a dotted place.

        :raises DevclusterError: one of the two is missing.
        """
        image = self._mapping(place)
        if not image.get("name") or not image.get("tag"):
            raise DevclusterError(f"{self.path}: {place} needs a name and a tag")
        return f"{image['name']}:{image['tag']}"

    def _mapping(self, place: str) -> Mapping[str, Any]:
        found: Any = self.content
        for key in place.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise DevclusterError(f"{self.path} has no mapping at {place}")
        return found
