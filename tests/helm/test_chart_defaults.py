"""The commands' copy of the chart's own values agrees with the chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from gpuspawner.cli.check.settings_errors import find_fatal_nulls
from gpuspawner.cli.values.chart_config import build_spawner_config
from gpuspawner.cli.values.helm_values import HelmValues
from tests.helm.support import chart

pytestmark = pytest.mark.skipif(not chart.IS_THERE, reason=chart.MISSING)


def test_values_that_say_nothing_make_the_same_spawners_as_the_charts_own():
    written = build_spawner_config(yaml.safe_load(chart.defaults().read_text()), namespace="jhub")
    # Its tag is that of each chart.
    del written["KubeSpawner"]["image"]
    assert written == build_spawner_config({}, namespace="jhub")


def paths(section: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each default of the chart."""
    for key, value in section.items():
        yield (*above, key)
        if isinstance(value, Mapping):
            yield from paths(value, (*above, key))


def without(section: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return values without a path, as Helm merges a null over a default of the chart."""
    key, *below = path
    left = {name: value for name, value in section.items() if name != key or below}
    return {**left, key: without(left[key], tuple(below))} if below else left


def nested(path: tuple[str, ...]) -> dict[str, Any]:
    """Return values with null at a path."""
    key, *below = path
    return {key: nested(tuple(below)) if below else None}


def test_each_null_that_the_charts_schema_refuses_is_an_error():
    defaults = yaml.safe_load(chart.defaults().read_text())
    before = chart.problems(defaults)
    refused = [path for path in paths(defaults) if chart.problems(without(defaults, path)) != before]
    assert refused
    assert [path for path in refused if not list(find_fatal_nulls(HelmValues(merged=nested(path))))] == []


def test_no_null_of_the_charts_own_values_is_an_error():
    values = HelmValues(merged=yaml.safe_load(chart.defaults().read_text()))
    assert list(find_fatal_nulls(values)) == []
