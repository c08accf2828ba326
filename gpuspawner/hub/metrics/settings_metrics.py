"""Whether the files of settings are right, for who asks the hub for its metrics; named as Prometheus names its own."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from gpuspawner.hub.config.settings_files import ReloadingSettings
from gpuspawner.hub.metrics.metrics import METRICS_PREFIX


class SettingsMetrics(Collector):
    """Has the files looked at when somebody asks, so that a mistake shows before anybody opens a form.

    :param followed: all settings with files.
    """

    def __init__(self, followed: Iterable[ReloadingSettings]) -> None:
        self._followed = followed

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield nothing where no settings have files."""
        found = list(self._followed)
        for settings in found:
            settings.reload_if_changed()
        if not found:
            return
        yield GaugeMetricFamily(
            f"{METRICS_PREFIX}_settings_last_reload_successful",
            "Whether the files of settings were right when they were last read; where not, older settings are in use",
            value=float(all(settings.is_valid for settings in found)),
        )
        yield GaugeMetricFamily(
            f"{METRICS_PREFIX}_settings_last_reload_success_timestamp_seconds",
            "When the files of settings were last read and right",
            value=min(settings.read_at for settings in found),
        )
