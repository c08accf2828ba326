"""Settings merged as Helm does mean, at every key, what the last file that speaks of it says.

The expected value of each key is found here on flat paths, without merging any mappings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuspawner.core.catalog.policy_model import Policy
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.request.field_definitions import CLOSED_CHOICES
from gpuspawner.settings import Settings
from gpuspawner.settings.parsing import merge_values

ENTRY = {"order": st.integers(-1, 1), "enabled": st.booleans(), "display_name": st.sampled_from(["A", "B"])}
COUNT = st.integers(0, 3)


def some(fields: dict[str, st.SearchStrategy[Any]], **required: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return mappings with some of the keys, each of them null at times."""
    optional = {key: st.none() | value for key, value in fields.items()}
    return st.fixed_dictionaries(required, optional=optional)


def entries(entry: st.SearchStrategy[Any], names: tuple[str, ...] = ("a", "b", "c")) -> st.SearchStrategy[Any]:
    """Return sections of entries, each of them null at times."""
    return st.dictionaries(st.sampled_from(names), st.none() | entry, max_size=3)


IMAGES = entries(some({**ENTRY, "image": st.just("lab:1"), "cuda": st.sampled_from(["12.8", "13.0"])}))
GPUS = entries(
    some(
        {
            **ENTRY,
            "resource": st.just("nvidia.com/gpu"),
            "match": st.dictionaries(st.sampled_from(["l/a", "l/b"]), st.none() | st.just(["x"])),
            "environment": st.dictionaries(st.sampled_from(["A", "B"]), st.none() | st.just("1")),
            "scale_up": some(
                {}, max_nodes=st.integers(1, 2), gpus_per_node=st.just(1), minutes=st.sampled_from([1.0, 5.0])
            ),
            "max_count": st.integers(1, 2),
        }
    )
)
RULE = some(
    {
        "max_gpus": COUNT,
        "deny": st.booleans(),
        "cpu": some({"min": st.just(1), "max": st.just(4)}),
        "gpus": st.just("*") | st.dictionaries(st.sampled_from(["a", "*"]), some({"max_gpus": COUNT})),
    }
)
NAMED_RULES = entries(st.tuples(RULE, st.booleans()).map(lambda both: {**both[0], "enabled": both[1]}), ("ml", "bio"))
LAYER = some(
    {
        "images": IMAGES,
        "gpus": GPUS,
        "cpu": some({"default": st.just(2), "step": st.just(1)}, max=st.integers(2, 8)),
        "presets": entries(some({**ENTRY, "cpu": st.just(2), "gpu": st.sampled_from(["a", "b"])})),
        "priorities": entries(some({**ENTRY, "class": st.just("low"), "value": st.integers(0, 1)})),
        "policy": some({"hide": st.booleans(), "default": RULE, "groups": NAMED_RULES, "users": NAMED_RULES}),
        "pools": entries(some({**ENTRY, "groups": st.just(["ml"]), "gpus": st.just(["a"]), "max_gpus": COUNT})),
        "accelerators": entries(
            some({"name": st.just("N"), "memory": st.sampled_from(["1G", "2G"])}), ("a100-40gb", "t4")
        ),
        "discover_gpus": st.booleans(),
    }
)


def flat(values: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return what is said at each path; a mapping with nothing in it is said at its own."""
    if not isinstance(values, dict) or not values:
        return {path: values}
    return {place: said for key, value in values.items() for place, said in flat(value, (*path, key)).items()}


def expected(layers: list[Any]) -> Any:
    """Return what each key must be, by the last layer that speaks of it; nulls only where they say something."""
    said: dict[tuple[str, ...], Any] = {}
    for layer in layers:
        for path, value in flat(layer).items():
            below = [place for place in said if place[: len(path)] == path]
            above = [place for place in said if place == path[: len(place)]]
            if value == {} and (not path or any(place != path for place in below)):
                continue
            for place in {*below, *above}:
                del said[place]
            said[path] = value
    found: dict[str, Any] = {}
    for path, value in said.items():
        into = found
        for key in path[:-1]:
            into = into.setdefault(key, {})
        if path and (value is not None or (path[0] == "accelerators" and len(path) == 2)):
            into[path[-1]] = value
    return found


def outcome(raw: Any) -> Any:
    """Return the settings, entry by entry in their order, or what is wrong with them."""
    try:
        settings = Settings.parse(raw)
    except SettingsError as error:
        return sorted((problem.field, problem.message) for problem in error.problems)
    configured = settings.configured
    # No rules, and rules that say nothing, are the same for all users.
    return replace(configured, policy=None) if configured.policy == Policy() else configured


@given(st.lists(LAYER, min_size=1, max_size=3))
def test_every_key_is_what_the_last_layer_that_speaks_of_it_says(layers: list[Any]):
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge_values(merged, layer)
    found = outcome(merged)
    assume("null takes" not in repr(found))  # refused so that nothing is not taken for everything
    assert found == outcome(expected(layers))


SECTIONS: dict[str, Any] = {
    "images": {"image": "lab:1"},
    "priorities": {"class": "low", "value": 1},
    "gpus": {"resource": "nvidia.com/gpu"},
    "presets": {"cpu": 2},
    "pools": {"groups": ["ml"], "max_gpus": 1},
}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_later_layer_sorts_hides_and_takes_out_entries_of_any_section(section: str):
    lower = {section: dict.fromkeys("abcd", SECTIONS[section])}
    upper = {
        section: {"d": {"order": 1}, "c": {"order": 2}, "a": {"enabled": False}, "b": None, "e": SECTIONS[section]}
    }
    configured = Settings.parse(merge_values(lower, upper)).configured
    found = {
        "pools": configured.policy.pools if configured.policy else {},
        **{each.section: configured.choices.get(each.name, {}) for each in CLOSED_CHOICES},
    }.get(section) or getattr(configured, section, {})
    assert list(found) == ["d", "c", "e"]
