"""zero-to-jupyterhub as data: its schema and defaults, which are no part of this project."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

FOLDER = Path(os.environ.get("GPUSPAWNER_Z2JH") or Path(__file__).resolve().parents[4] / "shared" / "z2jh")
MISSING = (
    f"{FOLDER} is not there: put the chart's values.schema.yaml and values.yaml into a folder, and the "
    "folder's path into GPUSPAWNER_Z2JH"
)
IS_THERE = (FOLDER / "values.schema.yaml").is_file()


def defaults() -> Path:
    """Return the file with what the chart has where values say nothing."""
    return FOLDER / "values.yaml"


def problems(values: Mapping[str, Any]) -> list[str]:
    """Return what the chart's schema has against values."""
    return [f"{each.json_path}: {each.message}" for each in _validator().iter_errors(values)]


@cache
def _validator() -> Any:
    schema = yaml.safe_load((FOLDER / "values.schema.yaml").read_text())
    return jsonschema.validators.validator_for(schema)(schema)
