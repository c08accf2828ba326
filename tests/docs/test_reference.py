"""The generated pages say what the code says."""

from __future__ import annotations

import re

import pytest
from pydantic import BeforeValidator

from docsite import configuration, reference
from docsite.written import notation
from gpuspawner.cli.main import make_parser
from gpuspawner.hub.config.traits import SETTING_TRAITS
from gpuspawner.hub.spawner import GPUSpawner


def test_generated_pages_are_up_to_date():
    # `make docs` writes them anew.
    assert reference.outdated() == []


def test_every_key_is_in_the_table():
    empty = re.findall(r"^\| `[^|]*\|[^|]*\|[^|]*\|\s*\|$", configuration.page(), re.MULTILINE)
    assert empty == []


def test_every_setting_has_its_section():
    sections = set(re.findall(r"^## `(\w+)`$", configuration.page(), re.MULTILINE))
    own = {
        name
        for name in GPUSpawner.class_trait_names(config=True)
        if any(name in vars(base) for base in GPUSpawner.__mro__ if base.__module__.startswith("gpuspawner"))
        and not any(name in vars(base) for base in GPUSpawner.__mro__ if base.__module__.startswith("kubespawner"))
    }
    assert set(SETTING_TRAITS) <= own <= sections


def test_every_command_has_its_section():
    page = reference.PAGES["commands.md"]()
    (commands,) = (action.choices for action in make_parser()._actions if action.dest == "command")
    assert set(re.findall(r"^## `gpuspawner (\w+)`$", page, re.MULTILINE)) == set(commands)


def test_a_notation_without_a_description_is_an_error():
    def unknown(value: object) -> object:
        return value

    from typing import Annotated  # noqa: PLC0415

    with pytest.raises(KeyError):
        notation(Annotated[int, BeforeValidator(unknown)])
