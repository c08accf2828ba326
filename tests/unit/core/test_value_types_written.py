from __future__ import annotations

import jsonschema
import pytest

from gpuspawner.core.units.duration import parse_duration
from gpuspawner.core.units.quantity import parse_cpu, parse_memory
from gpuspawner.core.value_types import CPU_SCHEMA, MEMORY_SCHEMA, RUN_TIME_SCHEMA, allow_unlimited

PARSERS = ((CPU_SCHEMA, parse_cpu), (MEMORY_SCHEMA, parse_memory), (RUN_TIME_SCHEMA, parse_duration))
WRITTEN = (
    *(4, 0.5, 0, -1, True, None, [], "", " ", "4", "0.5", ".5", "500m", "500M", "1.", "4 cores", "4000n"),
    *(
        "16G",
        "16Gi",
        "16 GiB",
        "16gb",
        "512M",
        "512MiB",
        "1T",
        "64k",
        "16",
        "16Q",
        "16 G B",
        "1m",
        "1mb",
        "100B",
        "-1G",
    ),
    *("30m", "8h", "2d", "2h30m", "1.5h", "2 hours 30 minutes", "1 day", "8", "h", "8hh", "30s", "2d6h15m", "m30"),
)


@pytest.mark.parametrize("value", WRITTEN)
def test_the_schema_takes_what_the_parsers_take(value: object):
    for schema, parse in PARSERS:
        try:
            parse(value)
            is_right = True
        except ValueError:
            is_right = False
        assert (jsonschema.Draft7Validator(schema).is_valid(value), schema["x-unit"]) == (is_right, schema["x-unit"])


def test_a_limit_may_be_none():
    schema = allow_unlimited(CPU_SCHEMA)
    found = [jsonschema.Draft7Validator(schema).is_valid(value) for value in ("unlimited", 4, "none")]
    assert found == [True, True, False]
