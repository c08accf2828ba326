"""The errors that gpuspawner raises on purpose, each with a stable code.

:mod:`gpuspawner.hub.errors` turns the errors into messages on JupyterHub's pages, HTTP responses and log lines.

    GPUSpawnerError
     ├── SelectionError     the user's choices are invalid; one Problem per form field
     │    └── PolicyError   the choices are valid, but policy denies them to this user, always or for now
     └── SettingsError      the admin's settings are invalid; one Problem per YAML path
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason why gpuspawner rejects a user's choice or an admin's setting.

    :param field: form field or user option (``gpu_count``), or dotted YAML path (``memory.max``); empty if the problem
        is about no single field.
    :param code: stable, machine-readable reason (``out_of_range``); the module that raises the error documents it.
    :param message: sentence for the user or the admin, usually with the allowed values.
    """

    field: str
    code: str
    message: str


class GPUSpawnerError(Exception):
    """Base class of all errors that gpuspawner raises on purpose.

    :param problems: one or more reasons for the error; :attr:`field` and :attr:`code` are those of the first problem.
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems: tuple[Problem, ...] = problems
        messages = (": ".join(filter(None, (problem.field, problem.message))) for problem in problems)
        super().__init__("; ".join(messages))

    @property
    def field(self) -> str:
        """Form field or YAML path of the error's first problem."""
        return self.problems[0].field

    @property
    def code(self) -> str:
        """Code of the error's first problem."""
        return self.problems[0].code


class SelectionError(GPUSpawnerError):
    """A user's choice is invalid: unknown slug, number out of range, unknown field."""


class PolicyError(SelectionError):
    """The policy denies a valid choice, always or for now; :mod:`gpuspawner.core.policy.denials` has the codes."""


class SettingsError(GPUSpawnerError):
    """An admin's settings are invalid."""
