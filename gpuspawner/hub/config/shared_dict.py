"""Settings that all spawners share as long as nothing may change them.

JupyterHub keeps a spawner for each user who has opened a page, and traitlets gives each spawner a copy of each
configured value. With 5,000 users, each with a rule of policy, the copies would take 5 GB.
"""

from __future__ import annotations

import marshal
from collections.abc import Collection
from contextlib import suppress
from copy import deepcopy
from typing import Any, ClassVar

from traitlets import Dict, HasTraits
from typing_extensions import override

_MAX_SHARED = 256
"""Maximum number of values that the process keeps for new spawners. Spawners keep what they share already."""


class _SharedValue(dict[str, Any]):
    """A setting's value that several spawners share; nothing may change it."""


class SharedDict(Dict):
    """A trait whose value all spawners share, until something reads the trait of one spawner.

    Group overrides and hooks may change the value that they read in place, so a spawner from which the trait is read
    gets a copy.
    """

    _values: ClassVar[dict[tuple[str, bytes], _SharedValue]] = {}
    """Name of a trait and a value as bytes → the object that spawners with this value share."""

    @override
    def get(self, obj: HasTraits, cls: type[Any] | None = None) -> dict[str, Any] | None:
        """Return the spawner's own value, which the caller may change in place."""
        value = super().get(obj, cls)
        if type(value) is _SharedValue:
            value = deepcopy(dict(value))
            self.set(obj, value)
        return value

    def peek(self, obj: HasTraits) -> dict[str, Any] | None:
        """Return the value without a copy; the caller must not change it."""
        value = super().get(obj)
        return dict(value) if type(value) is _SharedValue else value

    def share(self, obj: HasTraits) -> None:
        """Let a spawner share its value with all spawners that have the same value."""
        value = super().get(obj)
        if type(value) is dict and value:
            with suppress(ValueError):  # marshal refuses objects that are not of built-in types
                # Python takes True and 1 for equal, marshal does not.
                self.set(obj, self._values.setdefault((str(self.name), marshal.dumps(value, 2)), _SharedValue(value)))


def share_settings(spawner: HasTraits, names: Collection[str]) -> None:
    """Let a spawner and all spawners with the same settings share one object for each setting.

    :param names: names of the spawner's traits that are settings.
    """
    if len(SharedDict._values) >= _MAX_SHARED:
        SharedDict._values.clear()
    for name, trait in spawner.traits().items():
        if name in names and isinstance(trait, SharedDict):
            trait.share(spawner)
