"""A queue's names are what labels can hold, and its time is bounded."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gpuspawner.core.catalog.queue import KueueQueue


def parsed(**keys: Any) -> KueueQueue:
    return TypeAdapter(KueueQueue).validate_python({"local_queue": "gpu-queue", **keys})


def test_a_queue_needs_its_name_alone():
    queue = parsed()
    assert (queue.local_queue, queue.priority_class, queue.timeout_s, queue.gpus) == ("gpu-queue", "", None, ("*",))


@pytest.mark.parametrize(
    "keys",
    [
        *({"local_queue": name} for name in ("", "GPU", "a b", "-a", "a-", "{username}", "a" * 64, "a\n", 5, None)),
        *({"timeout": timeout} for timeout in (0, -1, 7 * 24 * 3600 + 1, "1h", True)),
        {"gpus": []},
    ],
)
def test_what_no_label_holds_too_long_a_time_and_no_type_are_refused(keys: dict[str, object]):
    with pytest.raises(ValidationError):
        parsed(**keys)


def test_without_a_name_there_is_no_queue():
    with pytest.raises(ValidationError):
        TypeAdapter(KueueQueue).validate_python({"timeout": 60})
