"""Settings in files change while the hub runs; wrong ones do not."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.config.offer import OfferFactory
from gpuspawner.hub.config.settings_files import ReloadingSettings, SettingsFilesCache
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.settings import Settings
from tests.unit.settings.mounts import Mount

LOG = logging.getLogger("settings-files")
T4 = "gpus: {t4: {resource: nvidia.com/gpu, max_count: 1}}"
TWO = "gpus: {t4: {resource: nvidia.com/gpu, max_count: 2}, l4: {resource: nvidia.com/gpu}}"
BROKEN = "gpus: {t4: {resource: nvidia.com/gpu, max_cnt: 2}}"
BASE: dict[str, Any] = {"cpu": {"max": 4, "step": 1}, "gpus": {"a100": {"resource": "nvidia.com/gpu"}}, "policy": {}}


class Hours:
    """A clock, moved by hand; files are older than anything on them."""

    def __init__(self) -> None:
        self.now_s = 4e9

    def __call__(self) -> float:
        return self.now_s


Follow = Callable[..., ReloadingSettings]


@pytest.fixture
def hours() -> Hours:
    return Hours()


@pytest.fixture
def follow(hours: Hours) -> Follow:
    def make(*paths: Path, base: Any = BASE, parse: Any = None) -> ReloadingSettings:
        parse = parse or OfferFactory(parse_settings).parse
        return ReloadingSettings([str(path) for path in paths], base, parse=parse, log=LOG, now=hours)

    return make


def counts(parsed: Settings) -> dict[str, int]:
    return {slug: gpu.max_count for slug, gpu in parsed.configured.gpus.items()}


def after(hours: Hours, settings: ReloadingSettings, *, base: Any = BASE) -> dict[str, int]:
    """Return the settings after a while."""
    hours.now_s += 10
    return counts(settings.parse(base))


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.message) for record in caplog.records if record.name == LOG.name]


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOG.name)


def test_files_go_over_traits(follow: Follow, tmp_path: Path):
    (tmp_path / "a.yaml").write_text(T4)
    assert counts(follow(tmp_path).parse(BASE)) == {"a100": 1, "t4": 1}


def test_a_mounted_file_that_changes_is_read_again(
    follow: Follow, hours: Hours, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    mount = Mount(tmp_path / "mount", {"a.yaml": T4})
    settings = follow(mount.folder)
    read_at = settings.read_at
    mount.swap({"a.yaml": TWO, "b.yaml": "gpus: {a100: null}"})
    assert after(hours, settings) == {"t4": 2, "l4": 1}
    assert settings.read_at == read_at + 10
    assert told(caplog) == [("INFO", "The files of settings were read again. What changed: gpus")]


def test_files_are_looked_at_once_a_second(follow: Follow, hours: Hours, tmp_path: Path):
    (tmp_path / "a.yaml").write_text(T4)
    settings = follow(tmp_path)
    (tmp_path / "a.yaml").write_text(TWO)
    hours.now_s += 0.9
    assert counts(settings.parse(BASE)) == {"a100": 1, "t4": 1}
    hours.now_s += 0.2
    assert counts(settings.parse(BASE)) == {"a100": 1, "t4": 2, "l4": 1}


def test_a_file_that_was_just_written_may_be_half_a_file(follow: Follow, hours: Hours, tmp_path: Path):
    path = tmp_path / "a.yaml"
    path.write_text(T4)
    settings = follow(path)
    path.write_text(TWO)
    os.utime(path, (hours.now_s + 9.5, hours.now_s + 9.5))
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    assert after(hours, settings) == {"a100": 1, "t4": 2, "l4": 1}


def test_a_wrong_file_changes_nothing_and_is_reported_once(
    follow: Follow, hours: Hours, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "a.yaml"
    path.write_text(T4)
    settings = follow(tmp_path)
    parsed, read_at = settings.parse(BASE), settings.read_at
    path.write_text(BROKEN)
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    os.utime(path, (1, 1))
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    assert settings.parse(BASE) is parsed
    assert (settings.is_valid, settings.read_at) == (False, read_at)
    ((level, message),) = told(caplog)
    assert (level, message.partition(": ")[0]) == (
        "ERROR",
        "The settings stay as they were, because their files are wrong now",
    )
    assert f"gpus.t4.max_cnt: there is no such key. Did you mean 'max_count'? ({path})" in message


def test_an_override_that_kubespawner_rejects_changes_nothing_and_is_reported(
    follow: Follow, hours: Hours, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "a.yaml"
    path.write_text("images: {small: {image: a, kubespawner_override: {start_timeout: 60}}}")
    settings = follow(tmp_path)
    parsed = settings.parse(BASE)
    path.write_text("images: {small: {image: a, kubespawner_override: {start_timeout: 60, tolerations: [gpu]}}}")
    hours.now_s += 10
    assert settings.parse(BASE) is parsed
    ((_, message),) = told(caplog)
    assert "images.small.kubespawner_override.tolerations: does not make a valid pod: " in message


def test_another_mistake_is_logged_and_so_is_its_end(
    follow: Follow, hours: Hours, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "a.yaml"
    path.write_text(T4)
    settings = follow(path)
    for text in (BROKEN, "gpus: [", TWO):
        path.write_text(text)
        after(hours, settings)
    path.unlink()
    assert after(hours, settings) == {"a100": 1, "t4": 2, "l4": 1}
    assert not settings.is_valid
    assert [level for level, _ in told(caplog)] == ["ERROR", "ERROR", "INFO", "ERROR"]
    assert told(caplog)[-1][1].endswith(f"settings_files: {path} cannot be read: No such file or directory")


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


MISHAPS = {
    "vanishes": (Path.unlink, "cannot be read: No such file or directory"),
    "leads to itself": (_loop, "cannot be read: Too many levels of symbolic links"),
    "is a pipe": (_become_a_pipe, "cannot be read: it is no file"),
    "is no text": (lambda path: path.write_bytes(b"\xff\xfe\x00g"), "is no YAML"),
    "holds no settings": (lambda path: path.write_text("- 1"), "must hold a mapping"),
    "says a key twice": (lambda path: path.write_text("cpu: {max: 1}\ncpu: {max: 2}"), "is there twice"),
}


@pytest.mark.parametrize("mishap", MISHAPS)
def test_with_any_fault_of_a_file_the_last_good_settings_stay(
    follow: Follow, hours: Hours, tmp_path: Path, caplog: pytest.LogCaptureFixture, mishap: str
):
    spoil, reason = MISHAPS[mishap]
    path = tmp_path / "a.yaml"
    path.write_text(T4)
    settings = follow(path)
    spoil(path)
    for _ in range(3):
        assert after(hours, settings) == {"a100": 1, "t4": 1}
    assert not settings.is_valid
    ((level, message),) = told(caplog)
    assert (level, str(path) in message, reason in message) == ("ERROR", True, True), message


def test_a_file_of_a_folder_that_is_wrong_keeps_what_the_others_say(
    follow: Follow, hours: Hours, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    mount = Mount(tmp_path / "mount", {"a.yaml": T4, "b.yaml": ""})
    settings = follow(mount.folder)
    mount.swap({"a.yaml": TWO, "b.yaml": "gpus: ["})
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    ((_, message),) = told(caplog)
    assert f"{mount.folder}/b.yaml is no YAML" in message
    mount.swap({"a.yaml": TWO, "b.yaml": ""})
    assert after(hours, settings) == {"a100": 1, "t4": 2, "l4": 1}
    assert settings.is_valid


def test_an_empty_file_says_nothing_and_takes_back_what_it_said(follow: Follow, hours: Hours, tmp_path: Path):
    path = tmp_path / "a.yaml"
    path.write_text(T4)
    settings = follow(path)
    path.write_text("")
    assert after(hours, settings) == {"a100": 1}
    assert settings.is_valid


def test_a_folder_that_vanishes_and_comes_back(follow: Follow, hours: Hours, tmp_path: Path):
    mount = Mount(tmp_path / "mount", {"a.yaml": T4})
    settings = follow(mount.folder)
    mount.folder.rename(tmp_path / "away")
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    assert not settings.is_valid
    (tmp_path / "away").rename(mount.folder)
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    assert settings.is_valid


def test_what_a_file_of_a_folder_said_goes_with_it(follow: Follow, hours: Hours, tmp_path: Path):
    mount = Mount(tmp_path / "mount", {"a.yaml": T4, "b.yaml": "gpus: {a100: null}"})
    settings = follow(mount.folder)
    assert after(hours, settings) == {"t4": 1}
    mount.swap({"a.yaml": T4})
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    mount.swap({})
    assert after(hours, settings) == {"a100": 1}
    assert settings.is_valid


def test_what_changes_while_it_is_read_is_read_the_next_time(follow: Follow, hours: Hours, tmp_path: Path):
    mount = Mount(tmp_path / "mount", {"a.yaml": T4})
    offers, swaps = OfferFactory(parse_settings), [{"a.yaml": BROKEN}, {"a.yaml": TWO}]

    def parse(raw: Any) -> Settings:
        if settings and len(swaps) == 1:
            mount.swap(swaps.pop())
        return offers.parse(raw)

    settings: ReloadingSettings | None = None
    settings = follow(mount.folder, parse=parse)
    mount.swap(swaps.pop(0))
    assert after(hours, settings) == {"a100": 1, "t4": 1}
    assert settings.is_valid
    assert after(hours, settings) == {"a100": 1, "t4": 2, "l4": 1}


def test_what_did_not_change_is_not_read_again(follow: Follow, hours: Hours, tmp_path: Path):
    offers, parsed = OfferFactory(parse_settings), []

    def parse(raw: Any) -> Settings:
        parsed.append(raw)
        return offers.parse(raw)

    path = tmp_path / "a.yaml"
    path.write_text(T4)
    settings = follow(path, parse=parse)
    for text in (TWO, BROKEN):
        path.write_text(text)
        for _ in range(3):
            after(hours, settings)
    assert len(parsed) == 3


def test_changes_for_one_user_go_over_the_files(follow: Follow, hours: Hours, tmp_path: Path):
    (tmp_path / "a.yaml").write_text(T4)
    settings = follow(tmp_path)
    of_group = {**BASE, "gpus": {**BASE["gpus"], "t4": {"max_count": 8}, "l40": {"resource": "nvidia.com/gpu"}}}
    assert counts(settings.parse(of_group)) == {"a100": 1, "t4": 8, "l40": 1}
    assert settings.parse(of_group) is settings.parse(of_group)
    (tmp_path / "a.yaml").write_text(TWO)
    assert after(hours, settings, base=of_group) == {"a100": 1, "t4": 8, "l4": 1, "l40": 1}
    assert after(hours, settings) == {"a100": 1, "t4": 2, "l4": 1}


def test_more_changes_than_are_remembered_are_right_as_well(follow: Follow, tmp_path: Path):
    settings = follow(tmp_path)
    for count in range(1, 100):
        own = {**BASE, "gpus": {"a100": {"resource": "nvidia.com/gpu", "max_count": count}}}
        assert counts(settings.parse(own)) == {"a100": count}


def test_a_wrong_change_for_a_person_is_wrong_for_that_person(follow: Follow, tmp_path: Path):
    settings = follow(tmp_path)
    with pytest.raises(SettingsError, match="max_cnt"):
        settings.parse({**BASE, "gpus": {"a100": {"resource": "nvidia.com/gpu", "max_cnt": 1}}})
    assert counts(settings.parse(BASE)) == {"a100": 1}
    assert settings.is_valid


def test_a_file_that_is_wrong_at_first_is_an_error_with_its_name(follow: Follow, tmp_path: Path):
    (tmp_path / "a.yaml").write_text(BROKEN)
    with pytest.raises(SettingsError, match=r"gpus\.t4\.max_cnt: .*a\.yaml"):
        follow(tmp_path)


def test_the_same_files_over_the_same_traits_are_followed_once(tmp_path: Path):
    files, parse = SettingsFilesCache(), OfferFactory(parse_settings).parse
    first = files.get_settings([str(tmp_path)], BASE, parse=parse, log=LOG)
    (tmp_path / "a.yaml").write_text(BROKEN)
    assert files.get_settings([str(tmp_path)], dict(BASE), parse=parse, log=LOG) is first
    assert list(files) == [first]


def test_few_of_many_are_remembered(tmp_path: Path):
    files, parse = SettingsFilesCache(), OfferFactory(parse_settings).parse
    for count in range(1, 100):
        files.get_settings([str(tmp_path)], {"cpu": {"max": count}}, parse=parse, log=LOG)
    assert len(list(files)) == 32
