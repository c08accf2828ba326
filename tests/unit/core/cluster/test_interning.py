from __future__ import annotations

import json

from gpuspawner.core.cluster import interning


def test_equal_labels_become_one_object():
    first, second = (interning.labels(json.loads('{"app": "web"}')) for _ in range(2))
    assert first == {"app": "web"}
    assert first is second


def test_equal_amounts_become_one_object():
    first, second = (interning.amounts(json.loads('{"cpu": 1000000}')) for _ in range(2))
    assert first == {"cpu": 10**6}
    assert first is second


def test_nothing_is_one_object():
    assert interning.labels({}) is interning.labels({})
    assert interning.amounts({}) is interning.amounts({})


def test_different_values_stay_apart():
    assert interning.labels({"a": "b"}) != interning.labels({"a": "c"})
    assert interning.amounts({"a": 1}) != interning.amounts({"a": 2})
