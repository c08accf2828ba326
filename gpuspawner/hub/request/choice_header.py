"""What stands in the fields of an open form whose script asks for a newer one.

The script fetches the page's own address, where a query would start a server, so it says in a header what it wants the
verdict for. Input from a stranger: whatever is not a small mapping of texts is nothing.
"""

from __future__ import annotations

import json
from typing import Any

CHOICE_HEADER = "Gpuspawner-Choice"

_MAX_HEADER_CHARACTERS = 2400
"""Characters of the header that are read at all; the longest texts of all fields take three quarters of them."""


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
