"""The answer to an open form that asks for news, and the pause until it asks again."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest

from gpuspawner.core.form.views import FormView, PolicyView, VerdictView
from gpuspawner.hub.form.refresh import FormUpdates, RefreshPace, build_answer
from tests.unit.hub.views import HOSTILE, MI210, T4, VIEW
from tests.unit.islands import faults, things


def with_types(*types: Any) -> FormView:
    (vendor, *_) = VIEW.vendors
    return replace(VIEW, vendors=(replace(vendor, types=types),))


def changes(updates: FormUpdates, view: FormView, since: str = "") -> Any:
    """Return what has changed, after a look at whether it is what the schema says; None for nothing."""
    _, text = updates.encode_changes(view, since=since)
    if not text:
        return None
    found = json.loads(text)
    assert faults(found, "refresh") == []
    return found


# -- what has changed --------------------------------------------------------------------------------------------------


def test_a_form_that_is_not_known_gets_all():
    found = changes(FormUpdates(), with_types(T4, MI210), since="0" * 32)
    assert [row[0] for row in found["gpus"]["rows"]] == ["t4", "mi210"]
    assert {"values", "verdict", "images", "presets", "profiles", "policy", "capacity_notice"} <= found.keys()


def test_a_form_that_has_everything_gets_nothing():
    updates = FormUpdates()
    tag = updates.remember(VIEW)
    assert (updates.encode_changes(VIEW, since=tag), updates.remember(VIEW)) == ((tag, ""), tag)


def test_it_gets_only_the_row_that_has_changed():
    updates = FormUpdates()
    tag = updates.remember(with_types(T4, MI210))
    found = changes(updates, with_types(replace(T4, free=2, capacity_text="2 of 8 free"), MI210), since=tag)
    assert found.keys() == {"version", "gpus"}
    changed, unchanged = found["gpus"]["rows"]
    assert (dict(zip(found["gpus"]["names"], changed, strict=True))["capacity_text"], unchanged) == (
        "2 of 8 free",
        "mi210",
    )


def test_a_type_that_is_gone_is_not_in_the_table_and_is_sent_again_when_it_comes_back():
    updates = FormUpdates()
    tag = updates.remember(with_types(T4, MI210))
    assert changes(updates, with_types(MI210), since=tag)["gpus"]["rows"] == ["mi210"]
    rows = changes(updates, with_types(T4, MI210), since=updates.remember(with_types(MI210)))["gpus"]["rows"]
    assert (rows[0][0], rows[1]) == ("t4", "mi210")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        pytest.param("capacity_notice", "It is not known.", "It is not known.", id="notice"),
        pytest.param(
            "verdict",
            VerdictView(outcome="waits", sentence="Will wait."),
            {"outcome": "waits", "sentence": "Will wait.", "alternatives": []},
            id="verdict",
        ),
        pytest.param(
            "policy",
            PolicyView(in_use="1 of 2", blocked="No."),
            {"in_use": "1 of 2", "blocked": "No.", "times": [], "presets": []},
            id="policy",
        ),
    ],
)
def test_a_member_that_has_changed_is_sent(name: str, value: Any, expected: Any):
    updates = FormUpdates()
    tag = updates.remember(VIEW)
    assert changes(updates, replace(VIEW, **{name: value}), since=tag)[name] == expected


def test_the_age_of_the_counts_is_no_news():
    updates = FormUpdates()
    tag = updates.remember(replace(VIEW, age_s=1.0))
    assert changes(updates, replace(VIEW, age_s=9.0, age_text="as of 2 min ago"), since=tag) is None


def test_the_least_recently_used_view_is_forgotten():
    updates = FormUpdates(limit=2)
    views = [replace(VIEW, capacity_notice=text) for text in ("a", "b", "c")]
    first, second = updates.remember(views[0]), updates.remember(views[1])
    updates.remember(views[0])
    updates.remember(views[2])
    assert "gpus" in changes(updates, views[2], since=second)
    assert "gpus" not in changes(updates, views[2], since=first)


def test_large_views_are_forgotten_earlier():
    updates = FormUpdates(max_characters=250_000)
    views = [replace(VIEW, capacity_notice=text * 100_000) for text in ("a", "b", "c")]
    tags = [updates.remember(view) for view in views]
    assert ["gpus" in changes(updates, VIEW, since=tag) for tag in tags] == [True, False, False]
    largest = updates.remember(replace(VIEW, capacity_notice="d" * 1_000_000))
    assert "gpus" not in changes(updates, VIEW, since=largest)


def test_hostile_texts_stay_texts():
    found = changes(FormUpdates(), with_types(replace(T4, display_name=HOSTILE, capacity_text="\ud800")))
    (gpu,) = things(found["gpus"])
    assert gpu["display_name"] == HOSTILE


# -- the answer --------------------------------------------------------------------------------------------------------


def answered(sent: dict[str, str], *, updates: FormUpdates | None = None, view: FormView = VIEW) -> Any:
    return build_answer(view, sent=sent, updates=updates or FormUpdates(), again_s=12.34)


def test_an_answer_is_json_that_no_cache_keeps():
    status, headers, body = answered({})
    assert (status, headers["Content-Type"]) == (HTTPStatus.OK, "application/json")
    assert (headers["Cache-Control"], headers["Gpuspawner-Again"]) == ("private, no-store", "12.3")
    assert faults(json.loads(body), "refresh") == []


def test_it_is_compressed_where_the_browser_takes_that():
    plain, packed = answered({}), answered({"Accept-Encoding": "gzip, br"})
    assert gzip.decompress(packed.body) == plain.body
    assert (plain.headers.get("Content-Encoding"), packed.headers["Content-Encoding"]) == (None, "gzip")


@pytest.mark.parametrize("known", ['"{}"', 'W/"{}"', '"{}-gzip"', '"other", "{}"'])
def test_a_form_that_has_everything_gets_no_body(known: str):
    updates = FormUpdates()
    tag = updates.remember(VIEW)
    status, headers, body = answered({"If-None-Match": known.format(tag)}, updates=updates)
    assert (status, body, headers["ETag"]) == (HTTPStatus.NOT_MODIFIED, b"", f'"{tag}"')
    assert "Content-Type" not in headers


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
