"""The commands' copy of the chart's own values agrees with the chart."""

from __future__ import annotations

import pytest
import yaml

from gpuspawner.cli.values.chart_config import build_spawner_config
from tests.helm.support import chart

pytestmark = pytest.mark.skipif(not chart.IS_THERE, reason=chart.MISSING)


def test_values_that_say_nothing_make_the_same_spawners_as_the_charts_own():
    written = build_spawner_config(yaml.safe_load(chart.defaults().read_text()), namespace="jhub")
    # Its tag is that of each chart.
    del written["KubeSpawner"]["image"]
    assert written == build_spawner_config({}, namespace="jhub")
