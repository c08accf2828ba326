"""The nastiest requests of tests/fuzz, sent to a real hub: each is refused, makes nothing, and the form still opens."""

from __future__ import annotations

import pytest

from tests.cluster.support import nasty
from tests.cluster.support.pages import Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.fuzz.support import writing
from tests.fuzz.support.corpus import SURROGATES, TEXTS

USER = "nasty"


@pytest.fixture(scope="module")
def visitor(servers: Servers) -> Visitor:
    person = Visitor(servers.hub.url)
    person.log_in(USER)
    return person


def test_nasty_forms_are_refused(visitor: Visitor) -> None:
    pages = {name: nasty.send(visitor, body) for name, body in nasty.forms()}
    assert (nasty.accepted(pages), nasty.broken_out(pages)) == ({}, [])


def test_nasty_uploads_are_refused(visitor: Visitor) -> None:
    pages = {name: nasty.send(visitor, body, content_type=writing.MULTIPART) for name, body in nasty.uploads()}
    assert (nasty.accepted(pages), nasty.broken_out(pages)) == ({}, [])


def test_nasty_links_are_refused(visitor: Visitor) -> None:
    pages = {name: visitor.get(f"/hub/spawn/{USER}?{link}") for name, link in nasty.links()}
    # Nothing was sent yet: the form opens, says what is wrong, and does not ask whether to start it.
    told = {name: (page.status, bool(page.soup.select("#gpuspawner-errors"))) for name, page in pages.items()}
    asked = [name for name, page in pages.items() if page.soup.select(".gs-asked")]
    assert (told, asked, nasty.broken_out(pages)) == (dict.fromkeys(told, (200, True)), [], [])


def test_nasty_options_are_refused_and_the_form_opens_with_what_is_left_of_them(
    servers: Servers, visitor: Visitor
) -> None:
    answers, pages = {}, {}
    for name, body in nasty.options():
        answers[name] = servers.hub.client.request("POST", f"/users/{USER}/server", body=body)
        pages[name] = visitor.get(f"/hub/spawn/{USER}")
    shown = {name: page.status for name, page in pages.items() if page.status != 200}
    assert (nasty.accepted(answers), shown, nasty.broken_out(pages)) == ({}, {}, [])


@pytest.mark.parametrize("text", [*SURROGATES.values(), TEXTS["right to left"], TEXTS["mark"]])
def test_an_open_form_is_answered_whatever_its_script_says(visitor: Visitor, text: str) -> None:
    page = visitor.get(f"/hub/spawn/{USER}", choice=dict.fromkeys(("image", "cpu", "gpu"), text))
    assert (page.status, nasty.broken_out({"": page})) == (200, [])


def test_nothing_of_all_that_is_left(servers: Servers, pods: Pods) -> None:
    # Once more, so that this does not depend on the other tests.
    servers.ask(USER, {"memory": nasty.TOO_MUCH})
    assert (pods.find(USER), USER in pods.claims()) == (None, False)
