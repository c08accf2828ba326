"""The JSON Schema accepts what the hub's rules accept, and the REST page names every code."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from docsite import rest_api
from docsite.user_options import EXAMPLES, schema
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.policy import denials
from gpuspawner.core.request import selection
from gpuspawner.core.request.selection import OPTION_FIELDS, validate
from gpuspawner.settings import Settings
from tests.docs.support.pages import ROOT
from tests.docs.test_json import SETTINGS

# The schema cannot refuse wrong slugs and bounds: so there are as few of these as possible.
OPEN = {
    **SETTINGS,
    "cpu": {"min": "1m", "max": 64, "step": "1m", "default": 1},
    "memory": {"min": "1B", "max": "1T", "step": "1B", "default": "1G"},
    "run_time": {"min": "1m", "max": "60d", "step": "1m"},
    "shared_memory": {"min": "1B", "max": "1G", "step": "1B"},
}
GPU = {"gpu": "a100-80gb"}
SAMPLES: list[Any] = [
    *(None, {}, [], "gpu", 1, True, {"gpus": 1}, {"": 1}, {"profile": {"a": [1]}}, {"profile": None}),
    *({"v": value} for value in (1, 1.0, 2, 0, "1", None, True)),
    *({"preset": value} for value in ("training", "", None, 1, [], {}, True, "x" * 201)),
    *({"image": value} for value in ("pytorch", "", None, 1, ["pytorch"], {}, False, "x" * 201)),
    *({"custom_image": value} for value in ("python:3.12", "", None, 1, ["a"], {}, "x" * 521)),
    {"image": "pytorch", "custom_image": "python:3.12"},
    {"image": "", "custom_image": "python:3.12"},
    {"image": None, "custom_image": "python:3.12"},
    *({"cpu": value} for value in (1, 0.5, 4.0, "2", ".5", "2.", "500m", " 2 ", None)),
    *({"cpu": value} for value in ("", -1, True, [], {}, "many", "1e3", "2 m", "500M", "1" * 65, 10**30)),
    *({"memory": value} for value in (10**9, 1e9, "16G", "16GiB", "16 gb", "1.5g", "512Mi", "512mb", "100B", None)),
    *({"memory": value} for value in ("", "16", "512m", 1.5, -1, True, [], {}, "16 G B", "1P", "1" * 65, 2**63)),
    *({**GPU, "gpu_count": value} for value in (1, 8, 2.0, None)),
    *({**GPU, "gpu_count": value} for value in (-1, 1.5, "1", True, [], {})),
    *({"gpu": value} for value in ("a100-80gb", "", None, 7, [], {}, True, "x" * 201)),
    *({"gpu": gpu, "gpu_count": count} for gpu in (None, "") for count in (0, None, 1)),
    *({"run_time": value} for value in ("30m", "8h", "2d", "2h30m", "1.5h", "2 hours 30 minutes", "8H", " 8h ", None)),
    *({"run_time": value} for value in ("", "8", ".", "h", "30m2h", "8x", 8, True, [], {}, "1" * 65)),
    *({"shared_memory": value} for value in ("512M", "", None, 1024, "x", "512m", True, [], {})),
    *({"priority": value} for value in ("low", "", None, 1, [], {}, "x" * 201)),
]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    settings = Settings.parse(OPEN)
    return assemble_catalog(settings.configured, Inventory(), table=settings.table, fallback_image="python:3.12")


def accepts(options: Any, catalog: Catalog) -> bool:
    try:
        validate(options, catalog)
    except SelectionError:
        return False
    return True


@pytest.mark.parametrize("options", [pytest.param(each, id=repr(each)[:60]) for each in SAMPLES])
def test_the_schema_accepts_what_the_rules_accept(options: Any, catalog: Catalog):
    assert Draft202012Validator(schema()).is_valid(options) == accepts(options, catalog)


def test_the_samples_have_both_kinds_for_each_field(catalog: Catalog):
    kinds = {(name, accepts(each, catalog)) for each in SAMPLES if isinstance(each, dict) for name in each}
    assert {(name, kind) for name in OPTION_FIELDS for kind in (True, False)} - kinds == {("profile", False)}


@pytest.mark.parametrize("options", EXAMPLES, ids=repr)
def test_an_example_is_accepted(options: Any, catalog: Catalog):
    Draft202012Validator(schema()).validate(options)
    assert accepts(options, catalog)


def test_the_schema_is_a_schema_and_names_every_option():
    Draft202012Validator.check_schema(schema())
    assert list(schema()["properties"]) == list(OPTION_FIELDS)


def test_openapi_describes_the_same_options_and_each_reference_leads_somewhere():
    described = rest_api.openapi()
    found = set(re.findall(r"#/components/schemas/(\w+)", rest_api.openapi_text()))
    assert found == set(described["components"]["schemas"])
    assert described["components"]["schemas"]["UserOptions"]["properties"] == schema()["properties"]


def test_every_code_of_a_refusal_is_on_the_page():
    told = set(re.findall(r"`([a-z_]+)`", rest_api.page()))
    of_choices = set(re.findall(r"``([a-z_]+)``", selection.__doc__.partition("Codes of the problems")[2]))
    of_policy = {value for name, value in vars(denials).items() if name.isupper() and not name.startswith("_")}
    assert (of_choices | of_policy) - told == set()
    assert len(of_choices) > 9
    assert len(of_policy) > 9


def test_the_links_to_both_documents_are_there():
    assert {"user-options.schema.json", "openapi.json"} <= {path.name for path in (ROOT / "docs/reference").iterdir()}
