"""The documentation's own search answers the questions of admins; it needs the built site, and no cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from docsite.__main__ import build
from tests.docs.support.questions import QUESTIONS

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Of the results, so many may hold the answer: a reader looks at no more.
FIRST = 2


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object, **_named: object) -> None:
        """Print no line for each request."""


@pytest.fixture(scope="module")
def docs_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site, and serve it on a free port of this machine."""
    folder: Path = tmp_path_factory.mktemp("docs")
    assert build(str(folder)) == 0
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
async def test_a_search_shows_the_answer_among_the_first(page: Page, docs_url: str, question: str, answer: str) -> None:
    await search(page, docs_url, question)
    await expect(shown_links(page, f"{docs_url}/{answer}")).to_be_visible()


async def test_a_result_opens_its_section(page: Page, docs_url: str) -> None:
    await search(page, docs_url, "upgrade")
    await shown_links(page, f"{docs_url}/operations#upgrade").click()
    await expect(page.locator("#upgrade")).to_be_in_viewport()


async def search(page: Page, url: str, query: str) -> None:
    """Search the site from its start page.

    The site searches at each key. Only the last key is pressed, so the first results are those of the whole query.
    """
    await page.goto(f"{url}/index.html")
    field = page.get_by_role("textbox", name="Search")
    await field.click()
    await expect(page.locator(".md-search-result__meta")).to_have_text("Type to start searching")
    await field.fill(query[:-1])
    await field.press(query[-1])


def shown_links(page: Page, answer: str) -> Locator:
    """Return the links to a page or section in the first results; a result is a page with its sections."""
    address, mark, section = answer.partition("#")
    # Between the two stand the words that the page highlights.
    place = f"[href$='{mark}{section}']" if section else ":not([href*='#'])"
    return page.locator(f".md-search-result__item:nth-child(-n+{FIRST}) a[href^='{address}.html']{place}")
