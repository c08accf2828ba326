"""What one request sent as its form, kept until the hub shows the form again in the same request.

JupyterHub answers a wrong form by asking a spawner for the form once more: that of the user's default server even when
another one was to be started, and without what was typed. The two calls share only the request they are made in, so
what was typed travels in a context variable. Each request of tornado runs in a context of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from gpuspawner.core.errors import Problem
from gpuspawner.core.request.checks import find_max_length

_QUERY_PREFIX = "opt-"


@dataclass(slots=True, kw_only=True)
class FormDraft:
    """A form that was sent.

    :param typed: field name → text.
    :param problems: what is wrong with it, empty until it was looked at.
    """

    typed: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


_draft: ContextVar[FormDraft | None] = ContextVar("gpuspawner_draft", default=None)


def keep_draft(form: Mapping[str, object]) -> FormDraft:
    """Remember what this request sent.

    To be called in the request's own task: a task it starts (every coroutine JupyterHub wraps) has a copy of the
    context, so what is set there is lost. The draft itself is shared, so problems may be noted from anywhere.
    """
    draft = FormDraft(typed=dict(_read_texts(form)))
    _draft.set(draft)
    return draft


def note_problems(problems: tuple[Problem, ...]) -> None:
    """Note what is wrong with what this request sent, if it sent a form."""
    draft = _draft.get()
    if draft is not None:
        draft.problems = problems


def take_draft() -> FormDraft | None:
    """Return what this request sent and forget it."""
    draft = _draft.get()
    _draft.set(None)
    return draft


def _read_texts(form: Mapping[str, object]) -> list[tuple[str, str]]:
    found = []
    for name, value in form.items():
        values = value if isinstance(value, list) else [value]
        texts = [text for text in values if isinstance(text, str)]
        if texts:
            field = str(name).removeprefix(_QUERY_PREFIX)
            # What is cut off makes no sense in any field of the form.
            found.append((field, texts[-1][: find_max_length(field)]))
    return found
