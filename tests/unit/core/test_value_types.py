from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gpuspawner.core.catalog.image_reference import Origin
from gpuspawner.core.value_types import (
    CPUs,
    LabelKey,
    LabelValue,
    Memory,
    RunTime,
    Text,
    Title,
    UnitFraction,
    Version,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (CPUs, 2, 2000),
        (CPUs, 0.5, 500),
        (CPUs, "500m", 500),
        (Memory, "8G", 8 * GIB),
        (Memory, 1024, 1024),
        (UnitFraction, 1, 1.0),
        (RunTime, "2h30m", 9000),
        (RunTime, "24855d", 24855 * 86_400),
        (Version, "12.10", "12.10"),
        (Text, "", ""),
        (LabelKey, "nvidia.com/gpu.product", "nvidia.com/gpu.product"),
        (LabelKey, "pool", "pool"),
        (Origin, "Quay.io/jupyter", "quay.io/jupyter"),
        (LabelValue, "", ""),
        (LabelValue, "A_1.b-c", "A_1.b-c"),
    ],
)
def test_values_are_written_as_admins_write_them(kind: Any, written: object, value: object):
    assert TypeAdapter(kind).validate_python(written, strict=True) == value


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (CPUs, True),
        (CPUs, "two"),
        (Memory, "8X"),
        (UnitFraction, 0),
        (UnitFraction, 1.01),
        (UnitFraction, float("nan")),
        (UnitFraction, "0.5"),
        (RunTime, 8),
        (RunTime, "8"),
        (RunTime, "0.5m"),
        (Version, 12.8),
        (Version, 12),
        (Version, "12"),
        (Version, "12.8\n"),
        (Title, ""),
        (Text, True),
        (LabelKey, "a/b/c"),
        (Origin, "jupyter"),
        (Origin, 5000),
        (LabelKey, "-a"),
        (LabelValue, "a b"),
        (LabelValue, "x" * 64),
        (LabelValue, True),
    ],
)
def test_values_that_mean_something_else_are_refused(kind: Any, written: object):
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(written, strict=True)


@pytest.mark.parametrize(
    ("kind", "written", "reason"),
    [
        (Version, 12.1, "must be in quotes (YAML takes 12.10 for the number 12.1)"),
        (Version, 12, "must be in quotes (YAML takes 12.10 for the number 12.1)"),
        (Version, 13.0, 'must be in quotes, as in "13.0" (YAML takes 12.10 for the number 12.1)'),
        (Version, 12.25, 'must be in quotes, as in "12.25" (YAML takes 12.10 for the number 12.1)'),
        (LabelValue, True, 'must be in quotes, as in "true": it is a text'),
    ],
)
def test_what_yaml_reads_as_something_else_needs_quotes(kind: Any, written: object, reason: str):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(written)
    assert str(caught.value.errors()[0]["ctx"]["error"]) == reason


def test_a_run_time_is_no_longer_than_kubernetes_can_wait():
    with pytest.raises(ValidationError, match="must be at most 24855 days"):
        TypeAdapter(RunTime).validate_python("24856d")
