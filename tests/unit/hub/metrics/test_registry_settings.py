"""A scrape tells whether the files of settings are right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from gpuspawner.hub.metrics.registry import SettingsMetrics


def scraped(*followed: Any) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(SettingsMetrics(followed))
    lines = generate_latest(registry).decode().splitlines()
    told = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name.removeprefix("jupyterhub_gpuspawner_settings_last_reload_"): float(value) for name, value in told}


def settings(*, is_valid: bool, read_at: float) -> Any:
    """Return settings that know how they are only once they were looked at."""
    found = SimpleNamespace()
    found.reload_if_changed = lambda: vars(found).update(is_valid=is_valid, read_at=read_at)
    return found


def test_valid_files_set_success_and_its_time():
    assert scraped(settings(is_valid=True, read_at=1700.5)) == {"successful": 1, "success_timestamp_seconds": 1700.5}


def test_one_wrong_file_of_several_settings_is_reported():
    found = scraped(settings(is_valid=True, read_at=1700), settings(is_valid=False, read_at=1600))
    assert found == {"successful": 0, "success_timestamp_seconds": 1600}


def test_without_files_nothing_is_reported():
    assert scraped() == {}
