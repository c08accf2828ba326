from __future__ import annotations

import io
import json
from difflib import ndiff
from pathlib import Path
from typing import Any

import jsonschema
import jupyterhub
import pytest
import yaml

from gpuspawner.cli.main import main
from gpuspawner.cli.schema import build_trait_schemas

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "helm-values" / "values.schema.json"
GOOD = sorted((Path(__file__).parent / "good_values").glob("*.yaml"))


def printed(*options: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["schema", *options]) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(jupyterhub.version_info < (6,), reason="the file names the traits of the newest KubeSpawner")
def test_the_file_in_helm_values_is_up_to_date(capsys: pytest.CaptureFixture[str]):
    # To renew it: .venv/bin/gpuspawner schema > helm-values/values.schema.json
    committed, made = COMMITTED.read_text().splitlines(), printed(capsys=capsys).splitlines()
    assert [line for line in ndiff(committed, made) if not line.startswith(" ")][:10] == []


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_right_values_are_right_by_the_schema(file: Path):
    schema: Any = json.loads(COMMITTED.read_text())
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_every_key_that_is_misspelt_is_wrong_by_the_schema(file: Path):
    schema: Any = json.loads(COMMITTED.read_text())
    validator = jsonschema.Draft7Validator(schema)
    text = file.read_text()
    for key in ("image", "step", "max_count", "max_gpus", "display_name", "resource", "gpu", "max"):
        changed = text.replace(f" {key}:", f" {key}x:")
        assert changed == text or not validator.is_valid(yaml.safe_load(changed)), key


def test_the_section_alone_and_yaml_can_be_had(capsys: pytest.CaptureFixture[str]):
    section = json.loads(printed("--section", capsys=capsys))
    assert ("cpu" in section["properties"], "hub" in section["properties"]) == (True, False)
    as_yaml = yaml.safe_load(io.StringIO(printed("--section", "--output", "yaml", capsys=capsys)))
    assert as_yaml == section
    assert "hub" in json.loads(printed("--values", capsys=capsys))["properties"]


def test_traits_may_stand_beside_settings_with_the_types_that_are_ours():
    found = build_trait_schemas()
    assert found["dry_run"]["type"] == "boolean"
    assert found["capacity_timeout"] == {
        "description": "Seconds that a form waits for answers of the cluster before it opens without numbers.",
        "type": "number",
        "default": 3.0,
    }
    assert (found["mem_limit"], "cpu" in found) == ({"description": "A trait of KubeSpawner."}, False)
