"""zero-to-jupyterhub's checks of values, with its schema read once for all examples."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.helm.support.chart import FOLDER, IS_THERE, MISSING


def problems(values: Mapping[str, Any]) -> list[str]:
    """List what the chart would refuse about values files; skips where there is no chart."""
    if not IS_THERE:
        pytest.skip(MISSING)
    errors = _validator().iter_errors(_over(_load("values.yaml"), values))
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


@cache
def _validator() -> Draft7Validator:
    return Draft7Validator(_load("values.schema.yaml"))


@cache
def _load(name: str) -> Any:
    return yaml.load((FOLDER / name).read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _over(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        before = merged.get(key)
        merged[key] = _over(before, value) if isinstance(value, Mapping) and isinstance(before, Mapping) else value
    return merged
