"""The nastiest forms of tests/fuzz, each of which a hub must refuse.

Left out is what JupyterHub itself answers with 500, whatever the spawner: forms that are no UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator

from devcluster.hub_client import Answer
from tests.cluster.support.pages import Page, Visitor
from tests.fuzz.support import writing
from tests.fuzz.support.corpus import UPLOAD_BODIES

# "No parts" is fine: all fields are left out.
NOT_SENT = {"no parts", "no UTF-8", "no UTF-8 in a name"}
WRONG_FORMS = (
    *("different ones", "a count twice", "two presets", "an array of PHP", "a map of Rails", "NUL in a name"),
    *("prefixed", "prefix alone", "half an escape", "a broken escape", "marked name", "right to left name"),
    *("a megabyte of name", "a thousand names", "too many names", "a hundred thousand names"),
    *("keys of KubeSpawner", "prototype"),
)


def uploads() -> Iterator[tuple[str, bytes]]:
    yield from ((name, body) for name, body in UPLOAD_BODIES.items() if name not in NOT_SENT)


def accepted(answers: dict[str, Page | Answer]) -> dict[str, int]:
    """Return what was not answered as a mistake of the sender."""
    return {name: answer.status for name, answer in answers.items() if answer.status != 400}


def send(visitor: Visitor, body: bytes, *, content_type: str = writing.URLENCODED, path: str = "/hub/spawn") -> Page:
    """Send a form from its page, opened anew: JupyterHub changes the token after a body that tornado cannot read."""
    visitor.get(path)
    return visitor.send(path, body, content_type=content_type)
