"""The names of the package are loaded when they are used."""

from __future__ import annotations

import pytest

import gpuspawner
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.startup import configure


def test_the_names_are_those_of_the_modules_behind_them():
    assert (gpuspawner.GPUSpawner, gpuspawner.configure) == (GPUSpawner, configure)


def test_the_version_is_one():
    assert gpuspawner.__version__.count(".") == 2


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="gpuspawner"):
        _ = gpuspawner.Spawner
