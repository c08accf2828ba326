"""Tells which extended resources are GPUs: how many of them a server gets is the user's choice alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpuspawner.core.catalog.catalogue import Catalog
from gpuspawner.core.catalog.node_gpus import find_vendor


def list_gpu_resources(catalogue: Catalog) -> frozenset[str]:
    """Return the resources of all types in a catalogue, those that nobody may pick among them."""
    return frozenset(gpu.resource for gpu in (*catalogue.gpus.values(), *catalogue.hidden))


def drop_gpu_resources(amounts: Mapping[str, Any] | None, resources: Collection[str]) -> dict[str, Any]:
    """Return an admin's limits or requests without GPUs, which would add to a choice or contradict it.

    :param resources: those of the catalogue; every resource of a known vendor's GPUs goes as well, since a server that
        asked for no GPU must not get one that is only not offered.
    """
    return {name: value for name, value in (amounts or {}).items() if name not in resources and not find_vendor(name)}
