from __future__ import annotations

import json

from gpuspawner.core.cluster import interning


def test_equal_labels_become_one_object():
    first, second = (interning.intern_labels(json.loads('{"app": "web"}')) for _ in range(2))
    assert first == {"app": "web"}
    assert first is second


def test_equal_amounts_become_one_object():
    first, second = (interning.intern_amounts(json.loads('{"cpu": 1000000}')) for _ in range(2))
    assert first == {"cpu": 10**6}
    assert first is second


def test_nothing_is_one_object():
    assert interning.intern_labels({}) is interning.intern_labels({})
    assert interning.intern_amounts({}) is interning.intern_amounts({})


def test_different_values_stay_apart():
    assert interning.intern_labels({"a": "b"}) != interning.intern_labels({"a": "c"})
    assert interning.intern_amounts({"a": 1}) != interning.intern_amounts({"a": 2})
