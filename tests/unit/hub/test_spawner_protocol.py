"""The spawner has all that the protocols of its parts name: KubeSpawner is untyped, so mypy cannot tell."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from kubespawner import KubeSpawner

from gpuspawner.hub.spawner_protocol import HubSpawner
from gpuspawner.hub.start.state import StartingSpawner
from tests.unit.hub.conftest import MakeSpawner

PROTOCOLS = [HubSpawner, StartingSpawner]
OF_NEWER_KUBESPAWNERS = {"slow_spawn_message", "decorate_progress_message", "event_formatter_class"}


def members(protocol: type) -> set[str]:
    """Return the names that a protocol and its bases declare."""
    bases = [base for base in inspect.getmro(protocol) if getattr(base, "_is_protocol", False)]
    names = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return {name for name in names if not name.startswith(("__", "_abc_", "_is_"))}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
async def test_the_spawner_fulfills_a_protocol(make_spawner: MakeSpawner, protocol: Any):
    spawner = make_spawner()
    optional = OF_NEWER_KUBESPAWNERS - {name for name in OF_NEWER_KUBESPAWNERS if hasattr(KubeSpawner, name)}
    assert members(protocol)
    assert [name for name in sorted(members(protocol) - optional) if not hasattr(spawner, name)] == []
