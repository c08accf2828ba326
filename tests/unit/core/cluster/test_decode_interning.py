from __future__ import annotations

import json

from gpuspawner.core.cluster import decode


def test_equal_labels_become_one_object():
    first, second = (decode.intern_labels(json.loads('{"app": "web"}')) for _ in range(2))
    assert first == {"app": "web"}
    assert first is second


def test_equal_amounts_become_one_object():
    first, second = (decode.intern_amounts(json.loads('{"cpu": 1000000}')) for _ in range(2))
    assert first == {"cpu": 10**6}
    assert first is second


def test_nothing_is_one_object():
    assert decode.intern_labels({}) is decode.intern_labels({})
    assert decode.intern_amounts({}) is decode.intern_amounts({})


def test_different_values_stay_apart():
    assert decode.intern_labels({"a": "b"}) != decode.intern_labels({"a": "c"})
    assert decode.intern_amounts({"a": 1}) != decode.intern_amounts({"a": 2})
