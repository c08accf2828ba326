"""A spawner whose settings stand in files: forms and starts take them as they are, also for those who are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from tornado import web

from gpuspawner.hub.config.settings_files import SettingsFilesCache
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.followed import cut_off, sent
from tests.unit.kube.watch_server import WatchServer, eventually

BIG = "gpus: {a100: {display_name: Big, max_count: 2}, mi210: {enabled: false}}"


@pytest.fixture
def settings(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Return settings with a folder that is checked at each use."""
    monkeypatch.setattr(GPUSpawner, "settings_files_cache", SettingsFilesCache(check_interval_s=0))
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


async def test_a_file_that_describes_fields_adds_them_below_the_profiles(
    make_spawner: MakeSpawner, settings: dict[str, Any]
):
    profiles = [{"display_name": "Small", "slug": "small"}]
    only_files = {"settings_files": settings["settings_files"]}
    spawner = make_spawner(settings=only_files, kubespawner={"profile_list": profiles})
    before = await spawner.get_options_form()
    write(settings, "cpu: {max: 4}")
    after = await spawner.get_options_form()
    assert ["gpuspawner-cpu" in page for page in (before, after)] == [False, True]


GONE = "gpus: {a100: {enabled: false}}"
SENT = {"image": ["pytorch"], "cpu": ["2"], "memory": ["4G"], "gpu": ["a100"], "gpu_count": ["1"]}


@pytest.fixture
async def with_homes(make_spawner: MakeSpawner, settings: dict[str, Any]) -> GPUSpawner:
    """Return a user's spawner, which makes a claim for a home at each start."""
    return make_spawner(settings=settings, kubespawner={"storage_pvc_ensure": True, "storage_capacity": "1Gi"})


def made(server: WatchServer) -> list[str]:
    """Return what the API server was asked to make, and not only to look at."""
    own = ("pods", "persistentvolumeclaims")
    asked = [each for each in server.requests if each.method == "POST" and "dryRun" not in each.query]
    return [kind for each in asked if (kind := each.path.rpartition("/")[2]) in own]


async def test_a_choice_that_is_gone_when_its_form_is_sent_is_refused_by_its_field(
    settings: dict[str, Any], with_homes: GPUSpawner
):
    assert "a100" in await offered(with_homes)
    write(settings, GONE)
    with pytest.raises(web.HTTPError) as refused:
        await with_homes.options_from_form(SENT)
    assert refused.value.status_code == 400
    assert await offered(with_homes) == ["mi210"]


@pytest.mark.parametrize("when", ["before the hub takes it", "in a hook"])
async def test_a_choice_that_goes_in_the_middle_of_a_start_is_refused_before_anything_is_made(
    settings: dict[str, Any], with_homes: GPUSpawner, server: WatchServer, when: str
):
    with_homes.user_options = await with_homes.options_from_form(SENT)
    if when == "before the hub takes it":
        write(settings, GONE)
        with pytest.raises(RefusedStart, match="gpu: "):
            await with_homes._run_apply_user_options(with_homes.user_options)
        return
    await with_homes._run_apply_user_options(with_homes.user_options)
    write(settings, GONE)
    with pytest.raises(RefusedStart, match="gpu: ") as refused:
        await with_homes.start()
    assert (refused.value.status_code, made(server)) == (400, [])


@pytest.mark.parametrize("text", ["gpus: [", GONE])
async def test_what_changes_once_a_start_is_let_through_changes_nothing_for_it(
    settings: dict[str, Any], with_homes: GPUSpawner, server: WatchServer, text: str
):
    with_homes.user_options = await with_homes.options_from_form(SENT)
    if text != GONE:
        write(settings, text)
    await with_homes._run_apply_user_options(with_homes.user_options)
    start = with_homes.start()
    await eventually(lambda: "persistentvolumeclaims" in made(server))
    write(settings, text)
    await sent(server, with_homes)
    assert made(server) == ["persistentvolumeclaims", "pods"]
    await cut_off(start)
