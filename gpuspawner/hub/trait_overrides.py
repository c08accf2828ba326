"""Sets traits of a spawner for one start, and restores the admin's values before the next.

JupyterHub may use a spawner object again after a failed start. New values are always computed from the admin's, as
hooks have left them, never from those of the last start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def copy_nested(value: Any) -> Any:
    """Return a copy of nested dicts and lists; other objects in them (functions, Kubernetes models) are shared.

    :param value: any value.
    """
    if isinstance(value, dict):
        return {key: copy_nested(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_nested(item) for item in value]
    return value


@dataclass(slots=True)
class TraitOverrides:
    """A spawner's traits that are set for a start, and the values that the admin gave them.

    :param owner: the spawner.
    """

    owner: Any
    _admin_values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, trait: str) -> Any:
        """Return the admin's value of a trait."""
        return self._admin_values[trait] if trait in self._admin_values else getattr(self.owner, trait)

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set traits for this start, and keep the admin's values.

        :param values: by trait.
        """
        for trait, value in values.items():
            self._admin_values[trait] = self[trait]
            # A copy: a change in place must not change the admin's value that it was made from.
            setattr(self.owner, trait, copy_nested(value))

    def copy_for(self, twin: Any) -> TraitOverrides:
        """Return overrides with the same admin's values for another spawner.

        :param twin: a copy of the owner.
        """
        return TraitOverrides(twin, dict(self._admin_values))

    def restore(self) -> None:
        """Give every trait the value that it had before the first assignment."""
        for trait, value in self._admin_values.items():
            setattr(self.owner, trait, value)
        self._admin_values.clear()
