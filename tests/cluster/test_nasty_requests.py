"""The nastiest requests of tests/fuzz, sent to a real hub: each is refused, nothing is made, and the form still opens.

Left out is what JupyterHub itself answers with 500, whatever the spawner: forms and links that are no UTF-8, JSON that
it can read and not store because it is nested too deep, and JSON that it stores as an object and reads as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.hub_client import Answer
from tests.cluster.support.pages import Page, Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.fuzz.support import writing
from tests.fuzz.support.corpus import FORM_BODIES, JSON_BODIES, SURROGATES, TEXTS, TOKENS, UPLOAD_BODIES

USER = "nasty"
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
    *("a megabyte of name", "a thousand names", "too many names", "keys of KubeSpawner", "prototype"),
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


@pytest.fixture(scope="module")
def visitor(servers: Servers) -> Visitor:
    person = Visitor(servers.hub.url)
    person.log_in(USER)
    return person


def accepted(answers: dict[str, Page | Answer]) -> dict[str, int]:
    """Return what was not answered as a mistake of the sender."""
    return {name: answer.status for name, answer in answers.items() if answer.status != 400}


def broken_out(pages: dict[str, Page]) -> list[str]:
    """Return the pages in which a text became an element."""
    return [name for name, page in pages.items() if page.soup.find("x-marker")]


def sent(visitor: Visitor, body: bytes, *, content_type: str) -> Page:
    """Send a form from its page, opened anew: JupyterHub changes the token after a body that tornado cannot read."""
    path = f"/hub/spawn/{USER}"
    visitor.get(path)
    return visitor.send(path, body, content_type=content_type)


def test_nasty_forms_are_refused(visitor: Visitor) -> None:
    pages = {name: sent(visitor, body, content_type=writing.URLENCODED) for name, body in forms()}
    assert (accepted(pages), broken_out(pages)) == ({}, [])


def test_nasty_uploads_are_refused(visitor: Visitor) -> None:
    bodies = {name: body for name, body in UPLOAD_BODIES.items() if name not in NOT_SENT}
    pages = {name: sent(visitor, body, content_type=writing.MULTIPART) for name, body in bodies.items()}
    assert (accepted(pages), broken_out(pages)) == ({}, [])


def test_nasty_links_are_refused(visitor: Visitor) -> None:
    pages = {name: visitor.get(f"/hub/spawn/{USER}?{link}") for name, link in links()}
    # Nothing was sent yet: the form opens, says what is wrong, and does not ask whether to start it.
    told = {name: (page.status, bool(page.soup.select("#gpuspawner-errors"))) for name, page in pages.items()}
    asked = [name for name, page in pages.items() if page.soup.select(".gs-asked")]
    assert (told, asked, broken_out(pages)) == (dict.fromkeys(told, (200, True)), [], [])


def test_nasty_options_are_refused_and_the_form_opens_with_what_is_left_of_them(
    servers: Servers, visitor: Visitor
) -> None:
    answers, pages = {}, {}
    for name, body in options():
        answers[name] = servers.hub.client.request("POST", f"/users/{USER}/server", body=body)
        pages[name] = visitor.get(f"/hub/spawn/{USER}")
    shown = {name: page.status for name, page in pages.items() if page.status != 200}
    assert (accepted(answers), shown, broken_out(pages)) == ({}, {}, [])


@pytest.mark.parametrize("text", [*SURROGATES.values(), TEXTS["right to left"], TEXTS["mark"]])
def test_an_open_form_is_answered_whatever_its_script_says(visitor: Visitor, text: str) -> None:
    page = visitor.get(f"/hub/spawn/{USER}", choice=dict.fromkeys(("image", "cpu", "gpu"), text))
    assert (page.status, broken_out({"": page})) == (200, [])


def test_nothing_of_all_that_is_left(servers: Servers, pods: Pods) -> None:
    # Once more, so that this does not depend on the other tests.
    servers.ask(USER, {"memory": TOO_MUCH})
    assert (pods.find(USER), USER in pods.claims()) == (None, False)
