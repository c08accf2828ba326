from __future__ import annotations

import pytest
import yaml

from gpuspawner.cli.check.settings_warnings import find_pointless_limits
from gpuspawner.settings import Settings


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("cpu: {max: 4, step: 8}", ["cpu.step"], id="a step that leaves one amount"),
        pytest.param("cpu: {min: 4, max: 4, step: 1}", [], id="one amount that was meant"),
        pytest.param(
            "memory: {max: 16G}\nshared_memory: {max: 32G}", ["shared_memory.max"], id="more shared memory than memory"
        ),
        pytest.param("memory: {max: 16G}\nshared_memory: {max: 16G}", [], id="as much"),
    ],
)
def test_a_limit_without_a_point_is_reported(text: str, fields: list[str]):
    settings = Settings.parse(yaml.safe_load(text))
    assert [problem.field for problem in find_pointless_limits(settings.build_configured())] == fields
