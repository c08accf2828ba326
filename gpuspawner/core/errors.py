"""The errors gpuspawner raises on purpose, each with a stable code.

Only :mod:`gpuspawner.hub.errors` knows how they reach a person (HTTP status, form field, log).

    GPUSpawnerError
     ├── SelectionError     what a user asked for is not valid; holds one Problem per field
     │    └── PolicyError   it is valid, and not for this person, or not now
     └── SettingsError      what an admin configured is not valid; holds one Problem per YAML path
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, at one place.

    :param field: name of the form field or user option (``gpu_count``), or the dotted YAML path (``memory.max``).
    :param code: stable, machine-readable reason (``out_of_range``); see the module that raises it.
    :param message: a sentence for people that names what is allowed instead.
    """

    field: str
    code: str
    message: str


class GPUSpawnerError(Exception):
    """Base of every error gpuspawner raises on purpose.

    :param problems: at least one; the first one is the one a single-line message shows.
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems: tuple[Problem, ...] = problems
        told = (": ".join(filter(None, (problem.field, problem.message))) for problem in problems)
        super().__init__("; ".join(told))

    @property
    def field(self) -> str:
        """Field of the first problem."""
        return self.problems[0].field

    @property
    def code(self) -> str:
        """Code of the first problem."""
        return self.problems[0].code


class SelectionError(GPUSpawnerError):
    """A user's choice is not valid: unknown slug, number out of range, unknown field."""


class PolicyError(SelectionError):
    """A valid choice that the user may not have, or not now; :mod:`gpuspawner.core.policy.denials` has the codes."""


class SettingsError(GPUSpawnerError):
    """An admin's settings are not valid."""
