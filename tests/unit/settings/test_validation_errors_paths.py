from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuspawner.settings.validation_errors import DottedPaths


def entries(value: Any) -> Iterator[tuple[str, str | int, Any]]:
    if isinstance(value, dict):
        yield from ((key, key, entry) for key, entry in value.items())
    elif isinstance(value, list):
        yield from ((str(index), index, entry) for index, entry in enumerate(value))


TREE = {"gpus": {"l40.s": {"match": {"nvidia.com/gpu.product": ["x", "y"]}}, "l40": {"s": 1}}, "cpu": {}}


@pytest.mark.parametrize(
    ("path", "found", "rest"),
    [
        ("", (), ""),
        ("cpu", ("cpu",), ""),
        ("cpu.max", ("cpu",), "max"),
        ("memory.max", (), "memory.max"),
        ("gpus.l40.s.match.nvidia.com/gpu.product.1", ("gpus", "l40.s", "match", "nvidia.com/gpu.product", 1), ""),
        ("gpus.l40.s.match.nvidia.com/gpu.product.2", ("gpus", "l40.s", "match", "nvidia.com/gpu.product"), "2"),
        ("gpus.l40.t", ("gpus", "l40"), "t"),
        ("cpus", (), "cpus"),
    ],
)
def test_a_path_leads_as_far_as_there_is_something(path: str, found: tuple[str | int, ...], rest: str):
    assert DottedPaths(entries).follow(path, TREE) == (found, rest)


def test_for_many_paths_each_value_is_gone_through_once():
    seen: list[Any] = []

    def counted(value: Any) -> Iterator[tuple[str, str | int, Any]]:
        seen.append(value)
        yield from entries(value)

    paths = DottedPaths(counted)
    for _ in range(3):
        paths.follow("gpus.l40.t", TREE)
        paths.follow("gpus.l40.s.match", TREE)
    assert [id(value) for value in seen] == list(dict.fromkeys(id(value) for value in seen))
