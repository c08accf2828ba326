"""Who looks at a form: whose request it is, which need not be the person whom the server is for.

JupyterHub gives a spawner the handler of a request that opens its form. The spawner keeps it, also while a request of
somebody else asks for the same form, so it is remembered for the request that it came with. Each request of tornado
runs in a context of its own.

What stands in the fields of an open form whose script asks for a newer one.

The script fetches the page's own address, where a query would start a server, so it says in a header what it wants the
verdict for. Input from a stranger: whatever is not a small mapping of texts is nothing.

What one request sent as its form, kept until the hub shows the form again in the same request.

JupyterHub answers a wrong form by asking a spawner for the form once more: that of the user's default server even when
another one was to be started, and without what was typed. The two calls share only the request they are made in, so
what was typed travels in a context variable. Each request of tornado runs in a context of its own.

Links to the spawn page that fill in the form, and start nothing.

JupyterHub starts a server when the address of its spawn page names options. It hands the request to the spawner before
it reads them, so options under a prefix of ours are taken out of the request there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from jupyterhub.utils import url_escape_path, url_path_join

from gpuspawner.core.errors import Problem
from gpuspawner.core.form.fields import format_field_values
from gpuspawner.core.request.checks import find_max_length
from gpuspawner.core.request.field_definitions import FIELDS, FORM_FIELDS
from gpuspawner.core.request.selection import Selection

_is_admin: ContextVar[bool] = ContextVar("gpuspawner_is_admin", default=False)


def note_viewer(handler: Any) -> None:
    """Remember whose request this is; to be called in the request's own task.

    Not the handler itself: tasks that begin in a request keep its context for as long as they run.
    """
    user = getattr(handler, "current_user", None)
    _is_admin.set(getattr(user, "admin", False) is True)


def is_viewer_admin() -> bool:
    """Tell whether an admin of the hub looks; not so where nobody said who does, as after a form that was wrong."""
    return _is_admin.get()


CHOICE_HEADER = "Gpuspawner-Choice"

_MAX_HEADER_CHARACTERS = sum(each.max_length for each in FIELDS) + 280
"""Characters of the header that are read at all: the longest text of every field, and room for the names."""


def read_choice_header(handler: Any) -> dict[str, str] | None:
    """Return field name → text, None where the request does not ask for anything.

    :param handler: tornado's, of the request for the form; None outside of one.
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


PREFILL_PREFIX = "fill-"
"""Comes before the name of each field."""


def build_prefill_url(spawner: Any, selection: Selection) -> str:
    """Return the address of a server's spawn page with a choice filled in.

    :param spawner: the server's.
    """
    page = url_path_join(
        spawner.hub.base_url, "spawn", spawner.user.escaped_name, url_escape_path(spawner.name) if spawner.name else ""
    )
    # Also what is empty: the form would fill it in from the choice that was saved last.
    values = {f"{PREFILL_PREFIX}{name}": value for name, value in format_field_values(selection).items()}
    return f"{page}?{urlencode(values)}"


def take_prefill(handler: Any) -> None:
    """Have the form of this request filled in as its address says, where it does; to be called in its own task.

    :param handler: tornado's, of the request; None outside of one.
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
