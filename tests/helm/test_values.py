"""Each file of helm-values, alone and together: what the chart, the settings and `gpuspawner check` say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuspawner.cli import main as cli
from gpuspawner.cli.values.helm_values import load_values
from gpuspawner.hub.startup import check_config
from gpuspawner.settings import Settings
from tests.helm.support import chart
from tests.helm.support.files import BASE, FOLDER, OTHERS, OVERLAYS, VALUES, Stack, name, section, stacks

STACKS = [pytest.param(stack, id=name(stack)) for stack in stacks()]
needs_the_chart = pytest.mark.skipif(not chart.IS_THERE, reason=chart.MISSING)


def paths(stack: Stack) -> list[str]:
    return [str(path) for path in stack]


def test_every_file_of_the_folder_is_tested():
    found = {path.name for path in FOLDER.iterdir()}
    assert found - OTHERS == {path.name for path in VALUES}


@pytest.mark.parametrize("stack", STACKS)
def test_the_hub_takes_the_configuration(stack: Stack):
    merged = load_values(paths(stack)).merged
    check_config(merged["hub"].get("config", {}))


@pytest.mark.parametrize("stack", STACKS)
def test_the_settings_describe_what_the_file_names(stack: Stack):
    given = section(load_values(paths(stack)).merged)
    configured = Settings.parse(given).configured
    offered = {slug for slug, entry in given.get("gpus", {}).items() if entry.get("enabled", True)}
    assert {*configured.gpus, *configured.unions} == offered


@needs_the_chart
@pytest.mark.parametrize("stack", STACKS)
def test_the_chart_takes_the_values(stack: Stack):
    assert chart.problems(load_values([str(chart.defaults()), *paths(stack)]).merged) == []


@needs_the_chart
@pytest.mark.parametrize("stack", STACKS)
def test_the_chart_knows_every_key_of_the_values_alone(stack: Stack):
    # Required keys are in the defaults; a key that the chart does not know would be as wrong without them.
    found = chart.problems(load_values(paths(stack)).merged)
    assert [problem for problem in found if "is a required property" not in problem] == []


@needs_the_chart
def test_a_key_that_the_chart_does_not_know_is_seen(tmp_path: Path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("hub:\n  initContainer: []\n")
    assert len(chart.problems(load_values([str(chart.defaults()), str(wrong)]).merged)) == 1


@pytest.mark.parametrize("stack", [each for each in STACKS if each.values[0][0] == BASE])
def test_check_finds_neither_errors_nor_warnings(stack: Stack, capsys: pytest.CaptureFixture[str]):
    status = cli.main(["check", "--output", "json", *paths(stack)])
    said = capsys.readouterr()
    found = [f"{each['path']}: {each['message']}" for each in json.loads(said.out)["problems"]]
    assert (status, found, said.err) == (0, [], "")


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.stem)
def test_nothing_of_the_base_is_said_again(overlay: Path):
    base, own = section(load_values([str(BASE)]).merged), section(load_values([str(overlay)]).merged)
    again = {
        (part, key)
        for part, entries in own.items()
        if isinstance(entries, dict)
        for key, value in entries.items()
        if base.get(part, {}).get(key) == value
    }
    assert again == set()
