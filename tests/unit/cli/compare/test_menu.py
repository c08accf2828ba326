from __future__ import annotations

import pytest

from gpuspawner.cli.compare.menu import (
    UNLISTED,
    MenuEntry,
    MenuMatch,
    MenuOption,
    MenuProfile,
    Pick,
    ReachedPicks,
    draw_sample,
)


def make_option(name: str, *slugs: str, default: str = "", title: str = "") -> MenuOption:
    entries = (MenuEntry(slug=slug, title=f"the {slug}", is_default=slug == default) for slug in slugs)
    return MenuOption(name=name, title=title or name.upper(), entries=tuple(entries))


def make_profile(slug: str, *options: MenuOption, title: str = "") -> MenuProfile:
    return MenuProfile(slug=slug, title=title or slug.title(), options=options)


SIZE = make_option("size", "s", "m", "l", default="m")
IMAGE = make_option("image", "a", "b", UNLISTED)
GPU = make_profile("gpu", SIZE, IMAGE)


def list_keys(profile: MenuProfile) -> list[tuple[str, ...]]:
    return [profile.get_pick(index).key for index in range(profile.number)]


def test_a_profile_has_each_combination_and_each_text_once():
    combinations = [("gpu", size, image) for size in "sml" for image in "ab"]
    assert list_keys(GPU) == [*combinations, ("gpu", "m", UNLISTED)]
    assert list_keys(make_profile("plain")) == [("plain",)]
    assert list_keys(make_profile("text", make_option("image", UNLISTED))) == [("text", UNLISTED)]


def test_a_pick_is_named_by_titles():
    assert GPU.default.label == "Gpu · SIZE: the m · IMAGE: the a"


@pytest.mark.parametrize("limit", [7, 200], ids=["just enough", "more"])
def test_a_small_menu_is_compared_whole(limit: int):
    sample = draw_sample([GPU], limit=limit, seed=1)
    assert ([pick.key for pick in sample.picks], sample.total, sample.is_complete) == (list_keys(GPU), 7, True)


def test_a_sample_has_each_entry_of_a_large_menu():
    options = [make_option(f"o{number}", *(f"e{entry}" for entry in range(9))) for number in range(12)]
    profiles = [GPU, make_profile("large", *options)]
    sample = draw_sample(profiles, limit=60, seed=3)
    found = {(pick.profile.slug, option.name, entry.slug) for pick in sample.picks for option, entry in pick.chosen}
    every = {
        (each.slug, option.name, entry.slug) for each in profiles for option in each.options for entry in option.entries
    }
    assert (found, len(sample.picks), sample.total, sample.is_complete) == (every, 60, 7 + 9**12, False)


def test_a_sample_is_that_of_its_seed():
    profiles = [make_profile(f"p{number}", SIZE, IMAGE) for number in range(9)]
    samples = [draw_sample(profiles, limit=10, seed=seed) for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    assert len(samples[0].picks) == 10


OTHER_SIZE = make_option("memory", "x", "m", title="Size")
OTHER_SIZE_TITLED = MenuOption(
    name="memory",
    title="size",
    entries=(MenuEntry(slug="1", title="The S"), MenuEntry(slug="2", title="the m"), MenuEntry(slug="3", title="new")),
)


@pytest.mark.parametrize(
    ("new", "key"),
    [
        pytest.param(make_profile("gpu", IMAGE, SIZE), ("gpu", "a", "s"), id="the same"),
        pytest.param(make_profile("other", SIZE, IMAGE, title="GPU"), ("other", "s", "a"), id="by the profile's title"),
        pytest.param(make_profile("gpu", OTHER_SIZE_TITLED, IMAGE), ("gpu", "1", "a"), id="by the option's title"),
        pytest.param(make_profile("gpu", SIZE, IMAGE, make_option("n", "1", "2", default="2")), ("gpu", "s", "a", "2"),
                     id="a new option has its default"),
        pytest.param(make_profile("gpu", SIZE), ("gpu", "s"), id="an option less, at its default"),
        pytest.param(make_profile("gpu", IMAGE), None, id="an option less, at no default"),
        pytest.param(make_profile("gpu", make_option("size", "m", "l"), IMAGE), None, id="an entry less"),
        pytest.param(make_profile("cpu", SIZE, IMAGE), None, id="no profile"),
    ],
)  # fmt: skip
def test_a_counterpart_is_found_by_key_or_title(new: MenuProfile, key: tuple[str, ...] | None):
    pick = GPU.default.replace("size", SIZE.entries[0])
    found = MenuMatch([GPU], [new]).find(pick)
    assert (found and found.key) == key


def test_a_title_of_two_profiles_matches_nothing():
    new = [make_profile("x", title="Gpu"), make_profile("y", title="Gpu")]
    assert MenuMatch([make_profile("gpu")], new).find(make_profile("gpu").default) is None


def reach(*picks: Pick) -> ReachedPicks:
    reached = ReachedPicks()
    for pick in picks:
        reached.add(pick)
    return reached


def test_every_pick_that_was_not_reached_is_missing():
    reached = reach(*(GPU.get_pick(index) for index in range(5)))
    assert [each.key for each in reached.list_missing([GPU], limit=200)] == [("gpu", "l", "b"), ("gpu", "m", UNLISTED)]


def test_a_text_counts_with_any_defaults_beside_it():
    text = IMAGE.entries[-1]
    reached = reach(*(GPU.get_pick(index) for index in range(6)))
    reached.add(Pick(profile=GPU, entries=(SIZE.entries[0], text)))
    assert list(reached.list_missing([GPU], limit=200)) == []


def test_of_a_large_menu_single_entries_and_profiles_are_missing():
    reached = reach(GPU.default)
    new = [GPU, make_profile("cpu", SIZE)]
    keys = [each.key for each in reached.list_missing(new, limit=3)]
    assert keys == [("gpu", "s", "a"), ("gpu", "l", "a"), ("gpu", "m", "b"), ("gpu", "m", UNLISTED), ("cpu", "m")]
