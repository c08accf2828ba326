"""The templates' own words, in the language of a request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from jinja2 import Environment, nodes

from gpuspawner._resources import data_dir
from gpuspawner.core.text.i18n import ENGLISH, Language, use_language
from gpuspawner.hub.form.rendering import render
from gpuspawner.hub.request.languages import load_languages
from tests.unit.hub.views import VIEW

TEMPLATES = sorted(path for path in data_dir("templates").rglob("*.html") if path.name != "admin.html")
every_template = pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
every_language = pytest.mark.parametrize("language", load_languages().values(), ids=lambda language: language.tag)
UNITS = {"GiB"}


@every_template
def test_no_word_stands_outside_of_a_message(path: Path):
    source = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", path.read_text(), flags=re.DOTALL)
    told = re.findall(r'(?:aria-label|title|alt|placeholder)="([^"]*)"', source)
    # In macros there are attributes without their tag, and ids.
    text = re.sub(r"<[^>]*>|[\w-]+=\"[^\"]*\"|\w*-\w*", "", source)
    assert re.findall(r"[A-Za-z]+", " ".join([*told, text])) == []


@every_template
def test_no_word_inside_of_an_expression_is_none_of_a_message(path: Path):
    tree = Environment(trim_blocks=True, lstrip_blocks=True).parse(path.read_text())
    calls = [
        call
        for call in tree.find_all(nodes.Call)
        if isinstance(call.node, nodes.Name) and call.node.name in ("_", "ngettext")
    ]
    messages = {id(argument) for call in calls for argument in call.args}
    texts = [const.value for const in tree.find_all(nodes.Const) if id(const) not in messages]
    # Names of fields, files, ids and attributes have no capital, or are in the page's own name.
    spoken = [text for text in texts if isinstance(text, str) and re.search(r"[A-Z]|\w \w", text)]
    assert [text for text in spoken if "gpuspawner-" not in text and text not in UNITS] == []


@every_language
def test_a_page_says_which_language_it_is_in(language: Language):
    with use_language(language):
        page = BeautifulSoup(render(VIEW), "html.parser")
    (root,) = page.select("#gpuspawner-form")
    sent = [field["value"] for field in page.select("input[name=_language]")]
    assert (root["lang"], sent) == (language.tag, [] if language is ENGLISH else [language.tag])


def test_pages_of_two_languages_do_not_mix():
    """Rows and scripts are kept from one page to the next."""
    pages = []
    for language in (*load_languages().values(), *load_languages().values()):
        with use_language(language):
            pages.append(render(VIEW))
    half = len(pages) // 2
    assert (pages[:half], len(set(pages))) == (pages[half:], half)
