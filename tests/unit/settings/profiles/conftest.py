from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpuspawner.settings.profiles import ConvertedProfiles, SpawnerTraits, convert_profile_list
from gpuspawner.settings.profiles.notes import NoteList

NAMES = frozenset(
    {"image", "cpu_limit", "cpu_guarantee", "mem_limit", "mem_guarantee", "node_selector", "tolerations", "namespace"}
    | {"environment", "default_url", "extra_resource_limits", "extra_resource_guarantees", "extra_container_config"}
)


def find_fault(name: str, value: object) -> str:
    if value == "{value}":  # KubeSpawner knows no such field, except in an unlisted choice
        return "has a template field 'value'"
    return "must be a text" if name == "default_url" and not isinstance(value, str) else ""


TRAITS = SpawnerTraits(
    names=NAMES,
    aliases={"image_spec": "image"},
    attributes=frozenset({*NAMES, "pod_name"}),
    find_fault=find_fault,
    slugify=lambda text: re.sub("[^a-z0-9]+", "-", text.lower()).strip("-"),
)

Convert = Callable[..., ConvertedProfiles]


@pytest.fixture
def traits() -> SpawnerTraits:
    return TRAITS


@pytest.fixture
def notes() -> NoteList:
    return NoteList()


@pytest.fixture
def convert() -> Convert:
    """Convert profiles as of Helm values, with a base of KubeSpawner's own values."""

    def convert_profiles(*profiles: Mapping[str, Any], **base: Any) -> ConvertedProfiles:
        return convert_profile_list(list(profiles), base=base, traits=TRAITS, sorts_keys=True)

    return convert_profiles
