"""The answer to an open form that asks for news, and the pause until it asks again."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest

from gpuspawner.core.form.views import FormView
from gpuspawner.hub.form.refresh import RefreshPace, build_answer, compute_tag
from tests.unit.hub.views import HOSTILE, MI210, T4, VIEW
from tests.unit.islands import faults, island_of


def with_types(*types: Any) -> FormView:
    (vendor, *_) = VIEW.vendors
    return replace(VIEW, vendors=(replace(vendor, types=types),))


# -- the answer --------------------------------------------------------------------------------------------------------


def answered(sent: dict[str, str], *, view: FormView = VIEW) -> Any:
    return build_answer(view, sent=sent, again_s=12.34)


def test_an_answer_is_json_that_no_cache_keeps():
    status, headers, body = answered({})
    assert (status, headers["Content-Type"]) == (HTTPStatus.OK, "application/json")
    assert (headers["Cache-Control"], headers["Gpuspawner-Again"]) == ("private, no-store", "12.3")
    assert faults(json.loads(body)) == []


def test_it_has_all_that_the_page_has_but_age_and_tag():
    page = island_of(replace(VIEW, age_s=3.0, tag=compute_tag(VIEW)))
    assert json.loads(answered({}).body) == {**page, "age_s": None, "tag": ""}


def test_hostile_texts_stay_texts():
    body = answered({}, view=with_types(replace(T4, display_name=HOSTILE, capacity_text="\ud800"))).body
    (gpu,) = json.loads(body)["gpus"]
    assert (gpu["display_name"], gpu["capacity_text"]) == (HOSTILE, "?")


def test_it_is_compressed_where_the_browser_takes_that():
    plain, packed = answered({}), answered({"Accept-Encoding": "gzip, br"})
    assert gzip.decompress(packed.body) == plain.body
    assert (plain.headers.get("Content-Encoding"), packed.headers["Content-Encoding"]) == (None, "gzip")


@pytest.mark.parametrize("known", ['"{}"', 'W/"{}"', '"{}-gzip"', '"other", "{}"'])
def test_a_form_that_has_everything_gets_no_body(known: str):
    tag = compute_tag(VIEW)
    status, headers, body = answered({"If-None-Match": known.format(tag)})
    assert (status, body, headers["ETag"]) == (HTTPStatus.NOT_MODIFIED, b"", f'"{tag}"')
    assert "Content-Type" not in headers


@pytest.mark.parametrize(
    ("changed", "is_news"),
    [
        pytest.param(with_types(replace(T4, free=2), MI210), True, id="count"),
        pytest.param(replace(VIEW, capacity_notice="It is not known."), True, id="notice"),
        pytest.param(replace(VIEW, age_s=9.0, age_text="as of 2 min ago"), False, id="age"),
    ],
)
def test_what_has_changed_is_news_unless_it_is_the_age(changed: FormView, is_news: bool):
    status = answered({"If-None-Match": f'"{compute_tag(VIEW)}"'}, view=changed).status
    assert status == (HTTPStatus.OK if is_news else HTTPStatus.NOT_MODIFIED)


@pytest.mark.parametrize(
    ("age_s", "expected"), [(None, None), (0.0, "0.0"), (75.26, "75.3")], ids=["unknown", "new", "old"]
)
def test_the_age_is_in_a_header(age_s: float | None, expected: str | None):
    assert answered({}, view=replace(VIEW, age_s=age_s)).headers.get("Gpuspawner-Age") == expected


@pytest.mark.parametrize(
    "sent",
    ["", "*", '"', '""', '"' + "a" * 40 + '"', "W/" * 5000, "\x00\xff", '"0123456789abcdef0123456789abcdef"'],
    ids=["empty", "any", "quote", "empty tag", "not ours", "long", "no text", "unknown"],
)
def test_whatever_is_sent_as_the_tag_the_answer_is_complete(sent: str):
    status, _, body = answered({"If-None-Match": sent})
    assert (status, "gpus" in json.loads(body)) == (HTTPStatus.OK, True)


# -- the pace ----------------------------------------------------------------------------------------------------------


class Times:
    """A clock, and the CPU time that the process has used."""

    now = 100.0
    cpu = 50.0


def paced(share: float = 0.1) -> tuple[RefreshPace, Times]:
    times = Times()
    return RefreshPace(share, clock=lambda: times.now, cpu_clock=lambda: times.cpu), times


def ask_together(pace: RefreshPace, times: Times, *, forms: int, cost_s: float, rounds: int) -> list[float]:
    """Return after how many seconds each form asks again, after all have kept to the pauses they got for some time."""
    due = [times.now + 10 * number / forms for number in range(forms)]
    for _ in range(rounds):
        for number in sorted(range(forms), key=due.__getitem__):
            times.now = max(times.now, due[number])
            times.cpu += cost_s
            due[number] = times.now + pace.plan_next(took_s=cost_s)
    return [at - times.now for at in due]


def test_few_forms_ask_every_ten_seconds():
    pace, times = paced()
    waits = ask_together(pace, times, forms=20, cost_s=0.01, rounds=20)
    assert max(waits) == pytest.approx(10.0)


def test_many_forms_cost_no_more_than_the_share():
    pace, times = paced()
    ask_together(pace, times, forms=300, cost_s=0.01, rounds=10)
    before, cpu = times.now, times.cpu
    ask_together_again = ask_together(pace, times, forms=300, cost_s=0.01, rounds=0)
    assert len(ask_together_again) == 300
    # As many as fit into the share: 0.01 s each, of a tenth of a second each second.
    assert pace.plan_next(took_s=0.01) == pytest.approx(30.0, rel=0.15)
    assert (times.now, times.cpu) == (before, cpu)


def test_no_form_waits_longer_than_90_seconds():
    pace, times = paced(0.01)
    assert max(ask_together(pace, times, forms=200, cost_s=0.05, rounds=5)) == pytest.approx(90.0)


def test_it_asks_often_again_when_the_others_have_gone():
    pace, times = paced()
    ask_together(pace, times, forms=500, cost_s=0.01, rounds=5)
    times.now += 60
    assert pace.plan_next(took_s=0.01) == pytest.approx(10.0)


def test_waiting_for_others_is_no_cost():
    pace, times = paced()
    waits = []
    for _ in range(100):
        times.now += 0.1
        times.cpu += 0.001
        waits.append(pace.plan_next(took_s=5.0))
    assert waits == pytest.approx([10.0] * 100)
