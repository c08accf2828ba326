"""The one definition of the JSON island's shape, templates/island.schema.json, as the tests ask it."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from gpuspawner._resources import data_dir
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.form import build
from gpuspawner.core.form.encoding import encode_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView
from gpuspawner.core.policy.allowance import Allowance

SCHEMA = json.loads((data_dir("templates") / "island.schema.json").read_text(encoding="utf-8"))


def faults(value: object, part: str = "") -> list[str]:
    """List where a value is not what the schema says, and why: an island, or what one of its definitions is about."""
    schema = {"$ref": f"#/$defs/{part}", "$defs": SCHEMA["$defs"]} if part else SCHEMA
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(value)]


def island_of(view: FormView) -> Any:
    """Return what the page's script gets of a view."""
    return json.loads(json.dumps(encode_view(view), allow_nan=False))


def build_view(
    catalog: Catalog,
    inventory: Inventory,
    *,
    options: Any = None,
    typed: Any = None,
    allowance: Allowance | None = None,
    **others: Any,
) -> FormView:
    """Build a view, of which the page's script gets what the schema says.

    :param options: as for :func:`gpuspawner.core.form.fields.fill_fields`; ``typed`` and ``allowance``, too.
    :param others: for :func:`gpuspawner.core.form.build.build_view`.
    """
    filled = fill_fields(catalog, options=options, typed=typed, allowance=allowance)
    view = build.build_view(catalog, inventory, filled=filled, allowance=allowance, **others)
    found = faults(island_of(view))
    assert found == [], found
    return view
