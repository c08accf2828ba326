"""A spawner whose settings stand in files: forms and starts take them as they are, also for those who are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from tornado import web

from gpuspawner.hub.settings_files import SettingsFiles
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import begin

BIG = "gpus: {a100: {display_name: Big, max_count: 2}, mi210: {enabled: false}}"


@pytest.fixture
def settings(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Return settings with a folder that is looked at whenever somebody asks."""
    monkeypatch.setattr(GPUSpawner, "_settings_files", SettingsFiles(look_after_s=0))
    folder = tmp_path / "settings"
    folder.mkdir()
    return {**SETTINGS, "settings_files": [str(folder)]}


def write(settings: dict[str, Any], text: str) -> None:
    """Write a file that has not changed for long."""
    path = Path(settings["settings_files"][0]) / "a.yaml"
    path.write_text(text)
    os.utime(path, (1, 1))


async def offered(spawner: GPUSpawner) -> list[str]:
    page = BeautifulSoup(await spawner.get_options_form(), "html.parser")
    return [str(field["value"]) for field in page.find_all(attrs={"name": "gpu"}) if field.get("value")]


async def test_a_form_of_a_spawner_that_is_there_shows_what_changed(
    make_spawner: MakeSpawner, settings: dict[str, Any]
):
    spawner = make_spawner(settings=settings)
    assert await offered(spawner) == ["a100", "mi210"]
    write(settings, BIG)
    assert await offered(spawner) == ["a100"]
    assert "Big" in await spawner.get_options_form()
    write(settings, "gpus: {a100: {max_cnt: 2}}")
    assert await offered(spawner) == ["a100"]


async def test_a_start_is_judged_by_what_the_files_say_now(make_spawner: MakeSpawner, settings: dict[str, Any]):
    spawner = make_spawner(settings=settings)
    write(settings, BIG)
    await begin(spawner, {"image": "pytorch", "gpu": "a100", "gpu_count": 2})
    with pytest.raises(web.HTTPError, match="gpu_count: "):
        await begin(make_spawner(settings=settings), {"image": "pytorch", "gpu": "a100", "gpu_count": 3})


async def test_a_saved_choice_that_is_gone_falls_back(make_spawner: MakeSpawner, settings: dict[str, Any]):
    spawner = make_spawner(settings=settings)
    spawner.user_options = {"v": 1, "image": "minimal", "cpu": 2, "memory": "4G", "gpu": "mi210", "gpu_count": 1}
    write(settings, BIG)
    page = BeautifulSoup(await spawner.get_options_form(), "html.parser")
    assert page.select_one("input[name=gpu]:checked")["value"] != "mi210"


async def test_a_group_override_goes_over_the_files_for_its_people(make_spawner: MakeSpawner, settings: dict[str, Any]):
    own, other = make_spawner(settings=settings), make_spawner(settings=settings, name="bob")
    write(settings, BIG)
    own._apply_overrides({"gpus": {"mi210": {"enabled": True}, "a100": {"enabled": False}}})
    assert [await offered(own), await offered(other)] == [["mi210"], ["a100"]]


async def test_with_files_the_form_is_ours_whatever_they_say(make_spawner: MakeSpawner, settings: dict[str, Any]):
    profiles = [{"display_name": "Small", "slug": "small"}]
    only_files = {"settings_files": settings["settings_files"]}
    spawner = make_spawner(settings=only_files, kubespawner={"profile_list": profiles})
    assert "Small" not in await spawner.get_options_form()
