"""A link to a choice starts nothing before the person has pressed Start, unless the admin lets it."""

from __future__ import annotations

from types import SimpleNamespace

import jupyterhub
import pytest
from bs4 import BeautifulSoup

from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.request.context import LINK_PREFIX
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.startup import check_config
from tests.unit.hub.conftest import SETTINGS, MakeSpawner

FIXED = {
    **SETTINGS,
    "presets": {
        "course": {"display_name": "Course", "image": "minimal", "kubespawner_override": {"environment": {"A": "1"}}},
        "big": {"display_name": "Big", "image": "pytorch", "cpu": 4},
    },
}
PREFIXES = [pytest.param("opt-", id="with a prefix"), pytest.param("", id="without a prefix")]


def query(**options: str) -> dict[str, list[bytes]]:
    return {f"{LINK_PREFIX}{name}": [text.encode()] for name, text in options.items()}


async def opened(spawner: GPUSpawner, arguments: dict[str, list[bytes]], method: str = "GET") -> BeautifulSoup:
    request = SimpleNamespace(method=method, query_arguments=arguments, headers={})
    spawner.handler = SimpleNamespace(request=request, current_user=None)
    return BeautifulSoup(str(await spawner.get_options_form()), "html.parser")


def asked(page: BeautifulSoup) -> list[str]:
    return [each.text for each in page.select(".gs-asked h2")]


def value(page: BeautifulSoup, name: str) -> str:
    (field,) = page.select(f"input[name={name}][type=text], input[name={name}][checked]")
    return str(field["value"])


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_a_link_fills_in_the_form_and_asks(make_spawner: MakeSpawner, prefix: str):
    arguments = {f"{prefix}gpu": [b"a100"], f"{prefix}memory": [b"8"], "next": [b"/x"], "display_name": [b"lab"]}
    page = await opened(make_spawner(), arguments)
    # JupyterHub starts what is left, and goes on to `next`.
    assert arguments == {"next": [b"/x"], **({"display_name": [b"lab"]} if jupyterhub.version_info >= (6,) else {})}
    assert (asked(page), value(page, "gpu"), value(page, "memory")) == (["Start this server?"], "a100", "8")
    (verdict,) = page.select("#gpuspawner-verdict-text")
    assert verdict.text.startswith("Starts now")
    (fields,) = page.select("details#gpuspawner-custom")
    assert (fields.has_attr("open"), len(fields.select("input[name=memory]"))) == (False, 1)
    assert page.select("details #gpuspawner-summary") == []


async def test_a_link_starts_at_once_where_the_admin_lets_it(make_spawner: MakeSpawner):
    spawner, arguments = make_spawner(settings={**SETTINGS, "links": "start"}), query(gpu="a100")
    page = await opened(spawner, arguments)
    assert (arguments, asked(page)) == (query(gpu="a100"), [])
    (root,) = page.select("#gpuspawner-form")
    assert root["data-links"] == "start"


async def test_only_links_ask(make_spawner: MakeSpawner):
    spawner = make_spawner()
    for arguments in ({}, {"fill-gpu": [b"a100"]}, {"utm_source": [b"mail"]}, {"_xsrf": [b"2|x"]}):
        assert asked(await opened(spawner, dict(arguments))) == []
    sent = query(gpu="a100")
    assert asked(await opened(spawner, sent, method="POST")) == []
    assert sent == query(gpu="a100")


@pytest.mark.parametrize(
    ("options", "field", "told"),
    [
        pytest.param({"cpu": "99"}, "cpu", "Enter 1 to 8 cores.", id="out of bounds"),
        pytest.param({"memory": "lots"}, "memory", "Enter a number, such as 4G.", id="no number"),
        pytest.param({"cpu": "1,000"}, "cpu", "This could mean 1000 or 1. Enter the one you mean.", id="unclear"),
    ],
)
async def test_a_wrong_link_shows_what_is_wrong_and_does_not_ask(
    make_spawner: MakeSpawner, options: dict[str, str], field: str, told: str
):
    page = await opened(make_spawner(), query(**options))
    (error,) = page.select(f"#gpuspawner-{field}-error")
    assert (asked(page), error.text) == ([], told)
    (link,) = page.select("#gpuspawner-errors a")
    assert link["href"] == f"#gpuspawner-{field}"


async def test_an_unknown_option_is_reported(make_spawner: MakeSpawner):
    page = await opened(make_spawner(), query(colour="red"))
    (summary,) = page.select("#gpuspawner-errors")
    assert (asked(page), "There is no field 'colour'." in summary.text) == ([], True)


async def test_a_number_of_a_machine_is_no_riddle(make_spawner: MakeSpawner):
    page = await opened(make_spawner(), query(memory="2.000G"))
    assert (asked(page), value(page, "memory")) == (["Start this server?"], "2G")


async def test_a_link_to_a_fixed_preset_shows_its_card_with_its_own_start(make_spawner: MakeSpawner):
    page = await opened(make_spawner(settings=FIXED), query(preset="course"))
    assert asked(page) == ["Start this server?"]
    (fields,) = page.select("details#gpuspawner-custom")
    cards = {str(each["data-preset"]): fields in each.parents for each in page.select(".gs-fixed")}
    assert cards == {"course": False}
    # The hub's own Start, which the script puts into the summary, is for the fields.
    assert len(fields.select("#gpuspawner-summary")) == 1


async def test_the_page_without_a_link_has_the_card_once_as_well(make_spawner: MakeSpawner):
    page = await opened(make_spawner(settings=FIXED), {})
    assert len(page.select(".gs-fixed")) == 1


async def test_a_form_of_the_sites_own_is_started_by_a_link_as_before(make_spawner: MakeSpawner):
    spawner, arguments = make_spawner(options_form="<p>Ours</p>"), query(gpu="a100")
    await opened(spawner, arguments)
    assert arguments == query(gpu="a100")


async def test_links_are_the_same_for_all_groups(make_spawner: MakeSpawner):
    spawner = make_spawner()
    spawner.user.groups = [SimpleNamespace(name="ml")]
    spawner.group_overrides = {"ml": {"groups": ["ml"], "spawner_override": {"links": "start"}}}
    page = await opened(spawner, query(gpu="a100"))
    assert (asked(page), page.select("[data-links]")) == (["Start this server?"], [])


def test_another_word_for_what_links_do_keeps_the_hub_from_starting():
    with pytest.raises(SettingsError, match=r"^links: must be confirm or start, not 'ask'$"):
        check_config({"GPUSpawner": {"links": "ask"}})
