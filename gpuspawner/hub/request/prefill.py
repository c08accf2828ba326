"""Links to the spawn page that fill in the form, and start nothing.

JupyterHub starts a server when the address of its spawn page names options. It hands the request to the spawner before
it reads them, so options under a prefix of ours are taken out of the request there.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from jupyterhub.utils import url_escape_path, url_path_join

from gpuspawner.core.form.formview_restore import FORM_FIELDS, format_field_values
from gpuspawner.core.request.selection import Selection
from gpuspawner.hub.request import drafts

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
        drafts.keep_draft(values)
