"""Limits of a person in the page: what is out of reach stays readable and cannot be picked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bs4 import BeautifulSoup, Tag

from gpuspawner.core.form.views import FormView, GPUTypeState, PolicyView, VendorView
from gpuspawner.hub.form.rendering import render
from tests.unit.hub.form.test_rendering import one, page, row
from tests.unit.hub.views import BLOCKED, DENIED, LIMITED, T4, VIEW


def classed(soup: BeautifulSoup | Tag, name: str) -> list[str]:
    return [each.get_text() for each in soup.select(f".gs-{name}")]


def test_a_page_without_limits_holds_nothing_of_them():
    plain = render(VIEW)
    assert render(replace(VIEW, policy=None)) == plain
    for word in ("in-use", "gpuspawner-blocked", "gpuspawner-ending", '"ending"', "denied-", "limits"):
        assert word not in plain
    assert len(render(replace(VIEW, policy=PolicyView()))) > len(plain) + 1000  # a script and styles of their own


@pytest.mark.parametrize(("name", "number", "reason"), [("gpu", 2, DENIED.reason), ("image", 3, "Not for you.")])
def test_a_choice_out_of_reach_is_disabled_and_says_why(name: str, number: int, reason: str):
    choice = row(page(LIMITED), name, number)
    assert (choice["data-state"], one(choice, "input").has_attr("disabled")) == ("denied", True)
    assert classed(choice, "reason") == [reason]


def test_a_choice_out_of_reach_is_sent_while_it_is_picked():
    picked = replace(LIMITED, values={**LIMITED.values, "gpu": "a100", "image": "lab"})
    for name, number in (("gpu", 2), ("image", 3)):
        radio = one(row(page(picked), name, number), "input")
        assert (radio.has_attr("checked"), radio.has_attr("disabled")) == (True, False)


def test_why_a_type_is_out_of_reach_comes_before_all_else():
    odd = replace(LIMITED, age_text="as of 2 min ago", values={**LIMITED.values, "image": "pytorch"})
    misfit = replace(odd.images[0].misfits[0], gpus=("a100",))
    view = replace(odd, images=(replace(odd.images[0], misfits=(misfit,)), *odd.images[1:]))
    choice = row(page(view), "gpu", 2)
    assert (classed(choice, "reason"), one(choice, "input").has_attr("disabled")) == ([DENIED.reason], True)


def test_another_image_that_is_not_allowed_is_a_disabled_card_without_a_field():
    soup = page(LIMITED)
    card = row(soup, "image", 4)
    assert (one(card, "input")["value"], one(card, "input").has_attr("disabled")) == ("", True)
    assert (classed(card, "reason"), soup.select("input[name=custom_image]")) == (["No others."], [])


def test_the_first_image_that_an_error_leads_to_is_one_that_can_be_picked():
    first = one(page(LIMITED), "#gpuspawner-image-1")
    assert (first["value"], first.has_attr("disabled"), first.has_attr("required")) == ("pytorch", False, True)


def test_a_type_says_how_long_a_server_with_it_runs():
    fine, denied = (one(row(page(LIMITED), "gpu", number), "span > small") for number in (1, 2))
    assert [fact.text for fact in fine.select("span")] == ["15 GiB", "full GPU", "up to 4 hours"]
    assert [" ".join(about.text.split()) for about in (fine, denied)] == [
        "15 GiB full GPU up to 4 hours up to 4",
        "15 GiB full GPU",
    ]


def test_usage_stands_before_the_types_and_describes_them():
    soup = page(LIMITED)
    group = one(soup, "#gpuspawner-gpus")
    told = one(group, "#gpuspawner-in-use")
    assert (group["aria-describedby"], told.has_attr("hidden")) == ("gpuspawner-in-use", False)
    assert told.get_text().split("\n") == ["2 of 4 GPUs in use by you", "Physics: 16 GPUs for all members together."]
    nothing = one(page(replace(LIMITED, policy=PolicyView())), "#gpuspawner-in-use")
    assert (nothing.has_attr("hidden"), nothing.get_text()) == (True, "")


def test_when_the_server_ends_stands_with_the_choice():
    told = one(page(LIMITED), "#gpuspawner-summary [aria-live] #gpuspawner-ending")
    assert told.get_text() == "Your server is stopped after 8 hours at the latest."
    assert one(page(replace(LIMITED, policy=PolicyView())), "#gpuspawner-ending").has_attr("hidden")


def test_a_preset_out_of_reach_says_why_and_starts_nothing():
    fine, denied = page(LIMITED).select("button.gs-preset")
    assert (fine.has_attr("disabled"), denied.has_attr("disabled")) == (False, True)
    assert (classed(fine, "action"), classed(denied, "action")) == (["Start this one"], [])
    assert classed(denied, "outlook") == ["You have two already."]


def test_where_nothing_may_be_started_it_is_said_first_and_enter_starts_nothing():
    soup = page(BLOCKED)
    told = one(soup, "#gpuspawner-blocked")
    assert (told["role"], told.has_attr("hidden"), told.get_text()) == (
        "alert",
        False,
        "Your groups could not be read.",
    )
    assert one(soup, "button.visually-hidden").has_attr("disabled")
    allowed = page(LIMITED)
    assert one(allowed, "#gpuspawner-blocked").has_attr("hidden")
    assert not one(allowed, "button.visually-hidden").has_attr("disabled")


@pytest.mark.parametrize("state", sorted(GPUTypeState))
def test_only_what_is_denied_or_never_there_cannot_be_picked(state: GPUTypeState):
    gpu = replace(T4, state=state, reason="Why not.")
    view: FormView = replace(VIEW, vendors=(VendorView(slug="x", display_name="X", types=(gpu,)),))
    disabled = one(row(page(view), "gpu", 1), "input").has_attr("disabled")
    assert disabled is (state in {GPUTypeState.DENIED, GPUTypeState.NEVER})
