"""What one spawner can offer right now: the admin's settings and the cluster put together.

Parsing settings, reading the cluster and assembling the catalogue are done once for all spawners of the hub process,
as long as nothing they depend on has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuspawner.core.accelerators import AcceleratorTable
from gpuspawner.core.assemble import Configured, assemble
from gpuspawner.core.catalogue import Catalogue
from gpuspawner.core.inventory import Inventory
from gpuspawner.kube.reader import ClusterReader, CoreAPI
from gpuspawner.settings import Settings

_MAX_SETTINGS = 32
"""Different settings kept parsed; group overrides may give some users others than the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What may be asked for, and the inventory it was made from.

    :param uncounted: slugs of GPU types whose ``max_count`` comes from the cluster.
    """

    catalogue: Catalogue
    inventory: Inventory
    uncounted: frozenset[str] = frozenset()

    @property
    def unread(self) -> str:
        """Why the cluster's nodes could not be read, a sentence; empty when they were."""
        return self.inventory.reason if self.inventory.nodes is None else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedSettings:
    """Settings that were checked, with everything that is made of them.

    :param is_empty: nothing is configured at all.
    """

    is_empty: bool
    configured: Configured
    table: AcceleratorTable


class Offers:
    """Makes offers from the one reader of this process.

    An event loop has its own API client, so another client means another loop (in tests) and another reader.
    """

    def __init__(self) -> None:
        self._api: CoreAPI | None = None
        self._reader: ClusterReader | None = None
        self._settings: OrderedDict[str, ParsedSettings] = OrderedDict()
        self._inventory: Inventory | None = None
        self._catalogues: dict[tuple[ParsedSettings, str], Catalogue] = {}

    def parse(self, raw: Mapping[str, Any]) -> ParsedSettings:
        """Return checked settings; what is written the same is parsed once.

        :raises SettingsError: with one problem for each path that is wrong.
        """
        text = repr(raw)
        if text not in self._settings:
            settings = Settings.parse(raw)
            self._settings[text] = ParsedSettings(
                is_empty=settings.is_empty, configured=settings.configured(), table=settings.table()
            )
        self._settings.move_to_end(text)
        if len(self._settings) > _MAX_SETTINGS:
            self._settings.popitem(last=False)
        return self._settings[text]

    def reader(self, api: CoreAPI, **options: Any) -> ClusterReader:
        """Return the reader for an API client; ``options`` as for :class:`ClusterReader`, of whoever asks first."""
        if self._reader is None or self._api is not api:
            self._api, self._reader = api, ClusterReader(api, **options)
        return self._reader

    async def make(self, settings: ParsedSettings, reader: ClusterReader, *, image: str) -> Offer:
        """Return what can be offered now.

        :param image: reference used when the settings name no image.
        """
        inventory = await reader.inventory()
        if inventory is not self._inventory or len(self._catalogues) > _MAX_SETTINGS:
            self._inventory, self._catalogues = inventory, {}
        key = (settings, image)
        if key not in self._catalogues:
            self._catalogues[key] = assemble(settings.configured, inventory, table=settings.table, fallback_image=image)
        return Offer(catalogue=self._catalogues[key], inventory=inventory, uncounted=settings.configured.uncounted)
