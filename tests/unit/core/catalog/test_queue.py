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


def test_without_a_name_there_is_no_queue():
    with pytest.raises(ValidationError):
        TypeAdapter(KueueQueue).validate_python({"timeout": 60})


@pytest.mark.parametrize("name", ["", "GPU", "a b", "-a", "a-", "{username}", "a" * 64, "a\n", 5, None])
def test_a_name_that_no_label_can_hold_is_refused(name: object):
    with pytest.raises(ValidationError):
        parsed(local_queue=name)


@pytest.mark.parametrize("timeout", [0, -1, 7 * 24 * 3600 + 1, "1h", True])
def test_a_time_is_a_number_of_seconds_up_to_a_week(timeout: object):
    with pytest.raises(ValidationError):
        parsed(timeout=timeout)


def test_a_queue_for_no_type_is_refused():
    with pytest.raises(ValidationError):
        parsed(gpus=[])
