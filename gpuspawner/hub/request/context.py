"""Remembers what the current request says: its viewer, the form it sent, and the values in its link.

Everything is kept in context variables, because tornado runs each request in its own context:

- The viewer may be an admin who opens another user's form. The spawner's handler may belong to another request.
- After an invalid form, JupyterHub asks a spawner for the form again, without the values that the user sent, and
  possibly the spawner of the user's default server. The draft restores those values.
- An open form that refreshes itself must not use a query, which would start a server, so it sends its values in a
  header.
- A query with :data:`PREFILL_PREFIX` fills in the form. The spawner removes it before JupyterHub reads the query, so
  that the link does not start a server.

The prefix of options in links to the spawn page, which depends on JupyterHub's version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import jupyterhub
from jupyterhub.utils import url_escape_path, url_path_join

from gpuspawner.core.errors import Problem
from gpuspawner.core.form.fields import format_field_values
from gpuspawner.core.request.checks import find_max_length
from gpuspawner.core.request.field_definitions import FIELDS, FORM_FIELDS
from gpuspawner.core.request.selection import Selection
from gpuspawner.hub.spawner_protocol import UserServer

LINK_PREFIX = "opt-" if jupyterhub.version_info >= (6,) else ""
"""Precedes each option in a link that starts a server. JupyterHub 6 warns about options without it, because they may
collide with its own; JupyterHub 5 would treat it as part of the name."""


_is_admin: ContextVar[bool] = ContextVar("gpuspawner_is_admin", default=False)


def note_viewer(handler: Any) -> None:
    """Remember whether the viewer is an admin; call this in the request's own task.

    The handler itself is not kept, because tasks that start during a request hold its context as long as they run.

    :param handler: tornado's handler of the request.
    """
    user = getattr(handler, "current_user", None)
    _is_admin.set(getattr(user, "admin", False) is True)


def is_viewer_admin() -> bool:
    """Return whether the viewer is an admin of the hub; False if unknown."""
    return _is_admin.get()


CHOICE_HEADER = "Gpuspawner-Choice"

_MAX_HEADER_CHARACTERS = sum(each.max_length for each in FIELDS) + 280
"""Longest header that is read: the longest text of every field, and room for their names."""


def read_choice_header(handler: Any) -> dict[str, str] | None:
    """Return the form's values by field, or None if the request has no valid header.

    :param handler: tornado's handler of the request for the form; None outside a request.
    """
    request = getattr(handler, "request", None)
    text = None if request is None else request.headers.get(CHOICE_HEADER)
    if text is None or len(text) > _MAX_HEADER_CHARACTERS:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return {name: value for name, value in values.items() if isinstance(value, str)}


_QUERY_PREFIX = "opt-"


@dataclass(slots=True, kw_only=True)
class FormDraft:
    """A form that the request sent.

    :param typed: texts by field.
    :param problems: set once the form is validated.
    """

    typed: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


_draft: ContextVar[FormDraft | None] = ContextVar("gpuspawner_draft", default=None)


def keep_draft(form: Mapping[str, object]) -> FormDraft:
    """Remember the form that this request sent; call this in the request's own task.

    Coroutines that JupyterHub wraps in a task have a copy of the context, so a variable set there would be lost. The
    draft object is shared, so any task may add problems to it.

    :param form: values by field, as JupyterHub parses the form or a query.
    """
    draft = FormDraft(typed=dict(_read_texts(form)))
    _draft.set(draft)
    return draft


def note_problems(problems: tuple[Problem, ...]) -> None:
    """Add problems to the form that this request sent, if any.

    :param problems: of the validation.
    """
    draft = _draft.get()
    if draft is not None:
        draft.problems = problems


def take_draft() -> FormDraft | None:
    """Return the form that this request sent, or None, and forget it."""
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
            # A text that exceeds its field's length is invalid anyway.
            found.append((field, texts[-1][: find_max_length(field)]))
    return found


PREFILL_PREFIX = "fill-"
"""Precedes each field's name in a link that fills in the form."""


def build_prefill_url(spawner: UserServer, selection: Selection) -> str:
    """Return the link to a server's spawn page that fills in a selection and starts nothing.

    :param spawner: the server's.
    :param selection: to fill in.
    """
    page = url_path_join(
        spawner.hub.base_url, "spawn", spawner.user.escaped_name, url_escape_path(spawner.name) if spawner.name else ""
    )
    # Empty values are included; otherwise the form would fill them in from the last saved selection.
    values = {f"{PREFILL_PREFIX}{name}": value for name, value in format_field_values(selection).items()}
    return f"{page}?{urlencode(values)}"


def take_prefill(handler: Any) -> None:
    """Remove the form's values from a link's query and keep them as the draft.

    Call this in the request's own task.

    :param handler: tornado's handler of the request; None outside a request.
    """
    request = getattr(handler, "request", None)
    arguments = getattr(request, "query_arguments", None)
    if not isinstance(arguments, dict) or request is None or request.method != "GET":
        return
    values = {}
    for name in [name for name in arguments if name.startswith(PREFILL_PREFIX)]:
        texts = [each.decode(errors="replace") for each in arguments.pop(name)]
        if name.removeprefix(PREFILL_PREFIX) in FORM_FIELDS:
            values[name.removeprefix(PREFILL_PREFIX)] = texts
    if values:
        keep_draft(values)
