"""Keeps apart what the admin set on a spawner and what the user's choice put over it.

A spawner object lives longer than one start: after a failure JupyterHub may use it again. So each trait is remembered
with the value it had before (the admin's, and what hooks made of it), new values are made from that alone, and at the
beginning of the next start it is there again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def copy_nested(value: Any) -> Any:
    """Return a copy of nested dicts and lists; what they hold (functions, Kubernetes models) is shared."""
    if isinstance(value, dict):
        return {key: copy_nested(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_nested(item) for item in value]
    return value


@dataclass(slots=True)
class TraitOverrides:
    """The admin's values of one spawner's traits, whatever was put over them.

    :param owner: the spawner.
    """

    owner: Any
    _remembered: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, trait: str) -> Any:
        """Return the admin's value of a trait."""
        return self._remembered[trait] if trait in self._remembered else getattr(self.owner, trait)

    def assign(self, values: Mapping[str, Any]) -> None:
        """Put values over the base."""
        for trait, value in values.items():
            self._remembered[trait] = self[trait]
            # A copy: whoever changes it in place must not change what it was made from.
            setattr(self.owner, trait, copy_nested(value))

    def copy_for(self, twin: Any) -> TraitOverrides:
        """Return the same values as those of another spawner, a copy of the owner."""
        return TraitOverrides(twin, dict(self._remembered))

    def restore(self) -> None:
        """Give every trait the value it had before the first assignment."""
        for trait, value in self._remembered.items():
            setattr(self.owner, trait, value)
        self._remembered.clear()
