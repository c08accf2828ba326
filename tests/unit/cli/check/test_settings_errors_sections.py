from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.common.findings import Severity
from tests.unit.cli_support import section, told, written

RIGHT = section("cpu: {max: 4}")
BELOW = "jupyterhub: {hub: {config: {GPUSpawner: {cpu: {max: 4}}}}}"


@pytest.mark.parametrize(
    ("lower", "upper", "path", "message"),
    [
        (RIGHT, "\nhub: 5", "hub", "must be a mapping, not a number"),
        (RIGHT, "\nhub: {config: abc}", "hub.config", "must be a mapping, not a text"),
        (RIGHT, "\nhub: [1]", "hub", "must be a mapping, not a list"),
        (BELOW, "\njupyterhub: {hub: 5}", "jupyterhub.hub", "must be a mapping, not a number"),
    ],
)
def test_a_section_of_the_wrong_type_is_an_error_with_its_place(
    lower: str, upper: str, path: str, message: str, tmp_path: Path
):
    (found,) = (each for each in told(written(tmp_path, lower, upper)) if each.code == "wrong_type")
    assert (found.path, found.code, found.message, found.severity) == (path, "wrong_type", message, Severity.ERROR)
    assert found.place
    assert (Path(found.place.file).name, found.place.line) == ("1.yaml", 2)


@pytest.mark.parametrize(
    ("beside", "path"),
    [
        ("singleuser: {extraTolerations: x}", "singleuser.extraTolerations"),
        ("singleuser: {extraTolerations: [{key: a, operator: exists}]}", "singleuser.extraTolerations.0.operator"),
    ],
)
def test_what_the_chart_stumbles_over_is_an_error(beside: str, path: str, tmp_path: Path):
    found = told(written(tmp_path, section("cpu: {max: 4}", beside=beside)), Severity.ERROR)
    assert [(each.path, each.code, each.place is not None and each.place.line > 4) for each in found] == [
        (path, "wrong_type", True)
    ]
