"""The nastiest requests of tests/fuzz, each of which a hub must refuse.

Left out is what JupyterHub itself answers with 500, whatever the spawner: forms and links that are no UTF-8, JSON that
it can read and not store because it is nested too deep, and JSON that it stores as an object and reads as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from devcluster.hub_client import Answer
from tests.cluster.support.pages import Page, Visitor
from tests.fuzz.support import writing
from tests.fuzz.support.corpus import FORM_BODIES, JSON_BODIES, TEXTS, TOKENS, UPLOAD_BODIES

# Wrong wherever it stands, so that no request makes a server whatever the other fields hold.
TOO_MUCH = "9999T"
LONGEST_LINK = 8000
# "No parts" is fine: all fields are left out.
NOT_SENT = {
    *("no parts", "no UTF-8", "no UTF-8 in a name", "nested as deep as JupyterHub reads"),
    *("bytes of JupyterHub", "broken bytes of JupyterHub"),
}
WRONG_FORMS = (
    *("different ones", "a count twice", "two presets", "an array of PHP", "a map of Rails", "NUL in a name"),
    *("prefixed", "prefix alone", "half an escape", "a broken escape", "marked name", "right to left name"),
    *(
        "a megabyte of name",
        "a thousand names",
        "too many names",
        "a hundred thousand names",
        "keys of KubeSpawner",
        "prototype",
    ),
)
WRONG_JSON = (
    *(
        "half an object",
        "two objects",
        "UTF-16",
        "no UTF-8",
        "byte order mark",
        "a list",
        "a text",
        "the same key twice",
    ),
    *("empty key", "NUL key", "surrogate key", "marked key", "a megabyte of key", "keys of KubeSpawner", "prototype"),
    *("options that are a list", "a hundred thousand unknown keys", "many wrong ones"),
)


def fields(value: str, *, too_much: str = TOO_MUCH) -> writing.Pairs:
    """Return a choice with a value in every field but the one that is wrong in any case."""
    return [("image", value), ("cpu", value), ("memory", too_much), ("gpu", value), ("gpu_count", value)]


def forms() -> Iterator[tuple[str, bytes]]:
    yield from ((name, writing.urlencoded(fields(text))) for name, text in TEXTS.items())
    yield from ((name, FORM_BODIES[name]) for name in WRONG_FORMS)


def links() -> Iterator[tuple[str, str]]:
    for name, text in TEXTS.items():
        link = writing.query(fields(text)).decode()
        if len(link) < LONGEST_LINK:
            yield name, link


def options() -> Iterator[tuple[str, bytes]]:
    """Yield what only JSON can hold."""
    for name in (name for name in TOKENS if name not in {*TEXTS, *NOT_SENT}):
        yield name, writing.json_object(fields(TOKENS[name], too_much=f'"{TOO_MUCH}"'))
    yield from ((name, JSON_BODIES[name]) for name in WRONG_JSON)


def uploads() -> Iterator[tuple[str, bytes]]:
    yield from ((name, body) for name, body in UPLOAD_BODIES.items() if name not in NOT_SENT)


def accepted(answers: dict[str, Page | Answer]) -> dict[str, int]:
    """Return what was not answered as a mistake of the sender."""
    return {name: answer.status for name, answer in answers.items() if answer.status != 400}


def broken_out(pages: dict[str, Page]) -> list[str]:
    """Return the pages in which a text became an element."""
    return [name for name, page in pages.items() if page.soup.find("x-marker")]


def send(visitor: Visitor, body: bytes, *, content_type: str = writing.URLENCODED, path: str = "/hub/spawn") -> Page:
    """Send a form from its page, opened anew: JupyterHub changes the token after a body that tornado cannot read."""
    visitor.get(path)
    return visitor.send(path, body, content_type=content_type)
