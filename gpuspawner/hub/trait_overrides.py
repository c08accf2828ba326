"""Sets traits of a spawner for one start, and restores the admin's values before the next start.

JupyterHub may reuse a spawner object after a failed start. The hub computes the values for each start from the admin's
values, never from the values of the previous start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def copy_nested(value: Any) -> Any:
    """Return a copy of nested dicts and lists; other objects in them, such as Kubernetes models, are not copied."""
    if isinstance(value, dict):
        return {key: copy_nested(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_nested(item) for item in value]
    return value


@dataclass(slots=True)
class TraitOverrides:
    """Sets a spawner's traits for a start, and saves the admin's values of these traits to restore them later.

    :param owner: the spawner.
    :param patch: puts the user's choice into the pod that KubeSpawner builds; None before a choice.
    """

    owner: Any
    patch: Callable[[Any], Any] | None = None
    _admin_values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, trait: str) -> Any:
        """Return the admin's value of a trait; None if the spawner has no such trait, which only the CLI accepts."""
        return self._admin_values[trait] if trait in self._admin_values else getattr(self.owner, trait, None)

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set traits for this start, and save the admin's values for :meth:`restore`.

        :param values: name of a trait → its value for this start.
        """
        for trait, value in values.items():
            self._admin_values[trait] = self[trait]
            # Copy the value: it may share lists with the admin's value, and a hook may change a list in place.
            setattr(self.owner, trait, copy_nested(value))

    def copy_for(self, twin: Any) -> TraitOverrides:
        """Return a copy of this object for ``twin``, a copy of the spawner.

        The result contains the saved values of the admin, so that its :meth:`restore` can set them on ``twin``.

        :param twin: the copy of the spawner.
        """
        return TraitOverrides(twin, _admin_values=dict(self._admin_values))

    def restore(self) -> None:
        """Restore the admin's value of each trait that this start has set, and forget the choice."""
        for trait, value in self._admin_values.items():
            setattr(self.owner, trait, value)
        self._admin_values.clear()
        self.patch = None
