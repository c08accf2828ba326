from __future__ import annotations

import contextvars
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner._resources import data_dir
from gpuspawner.core.text.i18n import get_language
from gpuspawner.hub.request.languages import load_languages, note_request_language, pick_locale, recall_form_language


def handler(accepted: str | None) -> SimpleNamespace:
    headers = {} if accepted is None else {"Accept-Language": accepted}
    return SimpleNamespace(request=SimpleNamespace(headers=headers))


def spoken_after(act, *args: object, **kwargs: object) -> str:
    """Return the tag of what is spoken in a request in which something was done."""
    request = contextvars.copy_context()
    request.run(act, *args, **kwargs)
    return request.run(get_language).tag


@pytest.mark.parametrize(
    ("accepted", "tag"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("DE-ch", "de"),
        ("en-US,en;q=0.9,de;q=0.8", "en"),
        ("fr-FR,fr;q=0.9,de;q=0.8,en;q=0.7", "de"),
        ("fr", "en"),
        ("de;q=0.1, zh-CN;q=0.2", "zh-CN"),
        ("zh", "zh-CN"),
        ("zh-Hans-CN", "zh-CN"),
        ("zh-SG", "zh-CN"),
        ("zh-TW", "en"),  # written in other characters
        ("zh-TW,zh;q=0.9", "zh-CN"),
        ("de;q=0, *", "en"),
        ("de;q=nan,de;q=x,zh;q=2", "en"),
        ("dev", "en"),
    ],
)
def test_a_browser_gets_what_it_likes_best_of_what_is_there(accepted: str, tag: str):
    assert pick_locale(accepted).tag == tag
    assert spoken_after(note_request_language, handler(accepted)) == tag


def test_the_admins_choice_comes_first():
    assert spoken_after(note_request_language, handler("de"), choice="zh-cn") == "zh-CN"


@pytest.mark.parametrize("request_handler", [None, handler(None), SimpleNamespace()])
def test_a_request_without_a_language_is_answered_in_english(request_handler: object):
    assert spoken_after(note_request_language, request_handler) == "en"


@pytest.mark.parametrize(
    ("sent", "tag"),
    [
        ("de", "de"),
        (["zh-CN"], "zh-CN"),
        (["xx"], "en"),
        ([b"de"], "en"),
        ([], "en"),
        (None, "en"),
        (7, "en"),
        ("", "en"),
    ],
)
def test_a_form_says_which_language_it_was_in(sent: object, tag: str):
    assert spoken_after(recall_form_language, sent) == tag


def test_a_form_knows_better_than_the_browser_that_sent_it():
    def act() -> None:
        recall_form_language("zh-CN")
        note_request_language(handler("de"))  # JupyterHub names the request of a form once it starts the server

    assert spoken_after(act) == "zh-CN"


def test_a_choice_of_the_admins_that_is_not_there_is_none():
    assert spoken_after(note_request_language, handler("de"), choice="xx") == "de"


def test_a_file_that_cannot_be_read_takes_no_language_away_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    whole = (data_dir("locale") / "de.mo").read_bytes()
    for name, content in {"de": whole, "fr": whole[:9], "it": whole[: len(whole) // 2], "pl": b""}.items():
        (tmp_path / f"{name}.mo").write_bytes(content)
    monkeypatch.setattr("gpuspawner.hub.request.languages.data_dir", lambda _: tmp_path)
    assert list(load_languages.__wrapped__()) == ["en", "de"]
    assert len(caplog.records) == 3


@given(st.text(max_size=500))
def test_any_header_has_an_answer(accepted: str):
    assert pick_locale(accepted) in load_languages().values()
