"""How fields are written into a request: what a browser, a link and a client of the REST API send."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from urllib.parse import quote, quote_plus

Pairs = Sequence[tuple[str, str]]
"""Names and values; for JSON the values are JSON texts already. A name may come twice."""

_BOUNDARY = "WebKitFormBoundary7MA4YWxkTrZu0gW"
URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = f"multipart/form-data; boundary={_BOUNDARY}"


def bare(text: str) -> str:
    """Return a text with only that escaped which would end it."""
    return "".join(f"%{ord(each):02X}" if each in "%&=+#" else each for each in text)


def urlencoded(pairs: Pairs, *, escaped: Callable[[str], str] = quote_plus) -> bytes:
    return "&".join(f"{escaped(name)}={escaped(value)}" for name, value in pairs).encode()


def query(pairs: Pairs, *, prefix: str = "opt-", escaped: Callable[[str], str] = quote) -> bytes:
    return urlencoded([(f"{prefix}{name}", value) for name, value in pairs], escaped=escaped)


def multipart(pairs: Pairs, *, as_file: str = "") -> bytes:
    """Write fields as parts.

    :param as_file: the field that is sent as a file.
    """
    parts = []
    for name, value in pairs:
        told = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        file = '; filename="x.txt"' if name == as_file else ""
        head = f'Content-Disposition: form-data; name="{told}"{file}'
        parts.append(f"--{_BOUNDARY}\r\n{head}\r\n\r\n{value}\r\n")
    return ("".join(parts) + f"--{_BOUNDARY}--\r\n").encode()


def json_object(pairs: Pairs) -> bytes:
    """Write an object member by member: a name may come twice, and a value need not be what ``json.dumps`` writes."""
    return ("{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in pairs) + "}").encode()
