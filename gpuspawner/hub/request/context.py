"""Remembers facts about the current request: whether an admin views the page, and the values for the form.

The module keeps these facts in context variables, because tornado runs each request in its own context. The hub needs
them in five cases:

- The viewer may be an admin who opens the form of a user. ``Spawner.handler`` does not tell who the viewer is, because
  this handler may belong to a different request.
- After a user has sent an invalid form, JupyterHub asks the spawner of the user's default server for the form again,
  but does not pass the sent values. :class:`FormDraft` keeps the values, even those of a form for a named server.
- An open form refreshes itself. The form sends its values in a header, because a query would start a server. The answer
  is data instead of a page, so the spawner needs the handler of this very request.
- A link to a choice asks before it starts a server, unless the admin has set ``links: start``. The spawner removes the
  link's options before JupyterHub reads the query. :class:`FormDraft` keeps them.
- A link fills in the form if its query has fields whose names begin with :data:`PREFILL_PREFIX`. The spawner removes
  these fields before JupyterHub reads the query, so that the link does not start a server.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlencode

import jupyterhub
from jupyterhub.utils import url_escape_path, url_path_join

from gpuspawner.core.errors import Problem
from gpuspawner.core.form.fields import format_field_values
from gpuspawner.core.request.field_definitions import AMOUNT_FIELDS, FIELDS
from gpuspawner.core.request.options import MAX_FIELDS, PROFILE, get_max_length, split_query
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.text.decimals import drop_padding
from gpuspawner.hub.spawner_protocol import HubSpawner

LINK_PREFIX = "opt-" if jupyterhub.version_info >= (6,) else ""
"""Prefix of each option's name in a link that starts a server. JupyterHub 6 warns about options without the prefix,
because they may collide with JupyterHub's own options. With JupyterHub 5, the prefix is empty, because JupyterHub 5
would treat a prefix as part of the name."""


def raise_if_cancelled() -> None:
    """End the current task if it was cancelled, even if it has ignored the cancellation.

    Before Python 3.12, ``asyncio.wait_for`` ignores a cancellation that coincides with the result of a request. So the
    task in which JupyterHub starts a server may go on, although JupyterHub has cancelled the start. KubeSpawner's
    start consists of more tasks, and ``raise_if_over`` in ``gpuspawner.hub.start.open_starts`` ends each of these.

    :raises CancelledError: the task was cancelled.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


_is_admin: ContextVar[bool] = ContextVar("gpuspawner_is_admin", default=False)


def note_viewer(handler: Any) -> None:
    """Remember whether the user who sent the request is an admin; call this in the request's own task.

    A context variable must not hold the handler: tasks that begin during the request would keep it in memory.
    """
    user = getattr(handler, "current_user", None)
    _is_admin.set(getattr(user, "admin", False) is True)


def is_viewer_admin() -> bool:
    """Return whether the user who sent the request is an admin of the hub; False if unknown."""
    return _is_admin.get()


CHOICE_HEADER = "Gpuspawner-Choice"

_MAX_HEADER_CHARACTERS = sum(each.max_length for each in FIELDS) + 280 + 6000
"""Maximum number of characters in the header ``Gpuspawner-Choice``; the hub ignores a longer header.

The first two numbers are for the values and names of the form's fields. The third is for the options of profiles
(``MOST_SENT`` in ``templates/profiles.js``)."""


_choice_header: ContextVar[str | None] = ContextVar("gpuspawner_choice_header", default=None)


def note_choice_header(handler: Any) -> None:
    """Remember the header in which an open form sends its values; call this in the request's own task.

    :param handler: tornado's handler of the request, or None outside a request.
    """
    request = getattr(handler, "request", None)
    _choice_header.set(None if request is None else request.headers.get(CHOICE_HEADER))


def read_choice_header() -> dict[str, str] | None:
    """Return field → value from the header in which an open form sends its values; None without a valid header."""
    text = _choice_header.get()
    if text is None or len(text) > _MAX_HEADER_CHARACTERS:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return {name: value[: get_max_length(name)] for name, value in values.items() if isinstance(value, str)}


def is_refresh(handler: Any) -> bool:
    """Return whether the request comes from an open form that refreshes itself.

    :param handler: tornado's handler of the request; None outside a request.
    """
    request = getattr(handler, "request", None)
    return request is not None and CHOICE_HEADER in request.headers and request.method == "GET"


_JSON = "application/json"

_refresh: ContextVar[weakref.ref[Any] | None] = ContextVar("gpuspawner_refresh", default=None)


def note_refresh(handler: Any) -> None:
    """Remember the handler of a refresh that wants data, not a page; call this in the request's own task.

    A form that was opened before an upgrade of gpuspawner does not accept JSON: it gets the page, as before.

    :param handler: tornado's handler of the request; None outside a request.
    """
    takes_json = is_refresh(handler) and _JSON in handler.request.headers.get("Accept", "")
    # Keep only a weak reference: tasks that begin during the request would keep the handler in memory.
    _refresh.set(weakref.ref(handler) if takes_json else None)


def find_refresh() -> Any:
    """Return the handler of the current request if it is a refresh that wants data; else None."""
    found = _refresh.get()
    return None if found is None else found()


_QUERY_PREFIX = "opt-"


@dataclass(slots=True, kw_only=True)
class FormDraft:
    """The form values that the current request sent, and the problems in these values.

    :param typed: name of a field → text, as the user entered it.
    :param problems: problems that the validation found; empty before the validation.
    :param is_link: whether the values come from a link, not from a form.
    :param link: the options in the query of a link that asks before it starts a server; None for a form, for a link
        that only fills in the form, and for a link that starts a server at once.
    :param ignored: names in the link that are no fields, as the user wrote them.
    :param profile: slug of the profile that the values name; empty if they name none, or if the form has no profiles.
    """

    typed: Mapping[str, str]
    problems: tuple[Problem, ...] = ()
    is_link: bool = False
    link: Mapping[str, object] | None = None
    ignored: Sequence[str] = ()
    profile: str = ""


_draft: ContextVar[FormDraft | None] = ContextVar("gpuspawner_draft", default=None)


def keep_draft(form: Mapping[str, object], *, has_profiles: bool = False) -> FormDraft:
    """Remember the form values that this request sent, and return them as a :class:`FormDraft`.

    Call this in the request's own task: that task does not see context variables that another task sets.

    :param form: values by field, as JupyterHub parses a form.
    """
    typed = dict(_read_texts(form))
    return _keep(FormDraft(typed=typed, profile=typed.get(PROFILE, "") if has_profiles else ""))


def keep_link(query: Mapping[str, object], *, asks_first: bool = False, has_profiles: bool = False) -> FormDraft:
    """Remember the values in a link as :func:`keep_draft` does those of a form. Leave out names that are no fields.

    :param query: values by field, as JupyterHub parses a query.
    :param asks_first: whether the form asks before it starts a server with these values.
    :param has_profiles: whether fields of KubeSpawner's profiles are fields of the form.
    """
    fields, ignored = split_query(query, has_profiles=has_profiles)
    link = fields if asks_first and fields else None
    typed = dict(_read_texts(fields))
    profile = typed.get(PROFILE, "")
    return _keep(FormDraft(typed=typed, is_link=bool(typed), link=link, ignored=ignored, profile=profile))


def _keep(draft: FormDraft) -> FormDraft:
    _draft.set(draft)
    return draft


def note_problems(problems: tuple[Problem, ...]) -> None:
    """Store problems in the :class:`FormDraft` of this request; do nothing if the request sent no form."""
    draft = _draft.get()
    if draft is not None:
        draft.problems = problems


def take_draft() -> FormDraft | None:
    """Return the :class:`FormDraft` of this request, and forget the draft; None if the request sent no form."""
    draft = _draft.get()
    _draft.set(None)
    return draft


class FormRequest(NamedTuple):
    """A request for the form.

    :param draft: what the request sent as a form or in a link; None if it sent nothing.
    :param header: field name → text in an open form that refreshes itself; None for another request.
    :param refresh: tornado's handler, if the request is a refresh that wants data; else None.
    """

    draft: FormDraft | None
    header: Mapping[str, str] | None
    refresh: Any

    @property
    def typed(self) -> Mapping[str, str]:
        """Field name → text that the request sent; empty if it sent nothing."""
        return (self.header if self.draft is None else self.draft.typed) or {}


def take_form_request() -> FormRequest:
    """Return what this request for the form has sent, and forget its :class:`FormDraft`."""
    return FormRequest(take_draft(), read_choice_header(), find_refresh())


def _read_texts(form: Mapping[str, object]) -> list[tuple[str, str]]:
    found = []
    for name, value in islice(form.items(), MAX_FIELDS):  # A form with more fields is refused.
        values = value if isinstance(value, list) else [value]
        texts = [text for text in values if isinstance(text, str)]
        if texts:
            field = str(name).removeprefix(_QUERY_PREFIX)
            # Keep no more characters than the field may have: a longer text is invalid, so the form need not show all.
            found.append((field, texts[-1][: get_max_length(field)]))
    return found


PREFILL_PREFIX = "fill-"
"""Prefix of each field's name in a link that fills in the form."""
_RESERVED = frozenset({"next", "display_name"})
"""Parameters of the spawn page that are not options of the server; JupyterHub 5 takes a display name for one."""
_XSRF = "_xsrf"
"""JupyterHub's XSRF token, which may be in the address of a form that was sent and opened again."""
_AMOUNTS = frozenset(each.name for each in AMOUNT_FIELDS)
_TRACKING_PREFIX = "utm_"
_TRACKING = frozenset({"gclid", "fbclid"})
"""Parameters that Google and Facebook add to links."""


def build_form_url(spawner: HubSpawner) -> str:
    """Return the address of a server's spawn page."""
    name = url_escape_path(spawner.name) if spawner.name else ""
    url: str = url_path_join(spawner.hub.base_url, "spawn", spawner.user.escaped_name, name)
    return url


def build_prefill_url(spawner: HubSpawner, selection: Selection) -> str:
    """Return a link to a server's spawn page that fills in the form with a selection and does not start the server."""
    # Include empty values, too: if the link lacked a field, the form would show this field's default.
    values = {f"{PREFILL_PREFIX}{name}": value for name, value in format_field_values(selection).items()}
    return f"{build_form_url(spawner)}?{urlencode(values)}"


def build_profile_url(spawner: HubSpawner, slug: str) -> str:
    """Return a link to a server's spawn page that picks a profile and does not start the server."""
    return f"{build_form_url(spawner)}?{urlencode({f'{PREFILL_PREFIX}{PROFILE}': slug})}"


def take_prefill(handler: Any, *, asks_first: bool = False, has_profiles: bool = False) -> None:
    """Remove a link's form values from the request's query, and store these values as a :class:`FormDraft`.

    JupyterHub starts a server if the query has options. Therefore also remove these parameters:

    - parameters that mail programs and social networks add to links;
    - all options in a link that fills in the form;
    - all options in other links, if ``asks_first`` is True.

    Call this in the request's own task, before JupyterHub reads the query.

    :param handler: tornado's handler of the request, or None outside a request.
    :param asks_first: whether the form asks before a link with options starts a server.
    :param has_profiles: whether fields of KubeSpawner's profiles are fields of the form.
    """
    request = getattr(handler, "request", None)
    arguments = getattr(request, "query_arguments", None)
    if not isinstance(arguments, dict) or request is None or request.method != "GET":
        return
    ignored = _TRACKING if jupyterhub.version_info >= (6,) else {*_TRACKING, "display_name"}
    for name in [name for name in arguments if name.startswith(_TRACKING_PREFIX) or name in ignored]:
        del arguments[name]
    filled = {name: arguments.pop(name) for name in list(arguments) if name.startswith(PREFILL_PREFIX)}
    if not filled and not asks_first:
        return
    options = {name: arguments.pop(name) for name in list(arguments) if name not in _RESERVED}
    if not filled:
        _keep_link(options, has_profiles=has_profiles)
        return
    fields = {name.removeprefix(PREFILL_PREFIX): value for name, value in filled.items()}
    known, _ = split_query(fields, has_profiles=has_profiles)
    values = {name: _read_bytes(name, value) for name, value in fields.items() if name in known and name != "v"}
    if values:
        keep_link(values, has_profiles=has_profiles)


def _keep_link(options: Mapping[str, list[bytes]], *, has_profiles: bool) -> None:
    """Store the options in a link's query as a :class:`FormDraft`.

    Like JupyterHub 6, use only the options with the prefix ``opt-`` if there are any.
    """
    prefixed = {name: value for name, value in options.items() if LINK_PREFIX and name.startswith(LINK_PREFIX)}
    link = {name: _read_bytes(name, value) for name, value in (prefixed or options).items() if name != _XSRF}
    if link:
        keep_link(link, asks_first=True, has_profiles=has_profiles)


def _read_bytes(name: str, values: list[bytes]) -> list[str]:
    texts = [each.decode(errors="replace") for each in values]
    amount = name.removeprefix(PREFILL_PREFIX).removeprefix(_QUERY_PREFIX) in _AMOUNTS
    return [drop_padding(each) if amount else each for each in texts]
