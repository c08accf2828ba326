"""A link to a choice starts nothing before the person has pressed Start, unless the admin lets it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import jupyterhub
import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future
from tornado.web import HTTPError

from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.request.context import LINK_PREFIX
from gpuspawner.hub.startup import check_config
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.pages import opened
from tests.unit.kube.watch_server import NODES, WatchServer

WITH_PRESET = {
    **SETTINGS,
    "presets": {
        "big": {"display_name": "Big", "image": "pytorch", "cpu": 4},
    },
}
PREFIXES = [pytest.param("opt-", id="with a prefix"), pytest.param("", id="without a prefix")]


def query(**options: str) -> dict[str, list[bytes]]:
    return {f"{LINK_PREFIX}{name}": [text.encode()] for name, text in options.items()}


def read_link(link: Mapping[str, str | list[str]]) -> dict[str, list[bytes]]:
    """Return the arguments of a link to start a choice; those that begin with ``fill-`` only fill in the form."""
    return {
        name if name.startswith("fill-") else f"{LINK_PREFIX}{name}": [
            text.encode() for text in ([value] if isinstance(value, str) else value)
        ]
        for name, value in link.items()
    }


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


async def test_an_empty_image_in_a_link_is_the_default_also_where_the_form_takes_custom_images(
    make_spawner: MakeSpawner,
):
    spawner = make_spawner(settings={**SETTINGS, "custom_images": {"allowed": True}})
    page = await opened(spawner, query(image=" ", cpu="99"))
    (link,) = page.select("#gpuspawner-errors a")
    assert (value(page, "image"), link["href"]) == ("pytorch", "#gpuspawner-cpu")


async def test_a_wrong_link_shows_what_is_wrong_and_does_not_ask(make_spawner: MakeSpawner):
    page = await opened(make_spawner(), query(cpu="1,000"))
    (error,) = page.select("#gpuspawner-cpu-error")
    assert (asked(page), error.text) == (
        [],
        "CPU must be a number of CPUs, such as 0.5 or 4, without a mark between thousands.",
    )
    (link,) = page.select("#gpuspawner-errors a")
    assert link["href"] == "#gpuspawner-cpu"


def told(page: BeautifulSoup) -> tuple[list[str], list[str], list[str]]:
    """Return whether the page asks, what it says is to be changed, and what it notes."""
    errors, notes = page.select("#gpuspawner-errors li"), page.select(".gs-message-note")
    return asked(page), [each.text for each in errors], [each.text for each in notes]


ASKED = ["Start this server?"]


@pytest.mark.parametrize(
    ("link", "said"),
    [
        pytest.param(
            {"gpu": "foo"},
            ([], ["This link asks for a GPU that this hub doesn't have (foo). Pick another."], []),
            id="a GPU",
        ),
        pytest.param(
            {"fill-gpu": "foo"},
            ([], ["This hub doesn't have the GPU foo. Pick another."], []),
            id="a GPU to fill in",
        ),
        pytest.param(
            {"fill-image": "foo"},
            ([], ["This hub doesn't have the image foo. Pick another."], []),
            id="an image to fill in",
        ),
        pytest.param(
            {"fill-preset": "foo"},
            ([], [], ["This hub doesn't have the preset foo. Pick another."]),
            id="a preset to fill in",
        ),
        pytest.param(
            {"image": "x" * 99},
            ([], [f"This link asks for an image that this hub doesn't have ({'x' * 39}…). Pick another."], []),
            id="an image with a long name",
        ),
        pytest.param(
            {"gpu": "a\u202eb"},
            ([], ["This link asks for a GPU that this hub doesn't have (a\\u202eb). Pick another."], []),
            id="a GPU whose name turns the text around",
        ),
        pytest.param(
            {"preset": "foo"},
            ([], [], ["This link asks for a preset that this hub doesn't have (foo). Pick another."]),
            id="a preset",
        ),
        pytest.param(
            {"gpu_count": "2"},
            ([], [], ["This link gives a number of GPUs but no GPU. Pick a GPU."]),
            id="a number of GPUs without a GPU",
        ),
        pytest.param(
            {"priority": "high"},
            ([], [], ["This link asks for a priority that this hub doesn't have (high). It is ignored."]),
            id="a priority where there is none",
        ),
        pytest.param(
            {"gpu": "a100", "colour": "red"},
            (ASKED, [], ["This link has 1 field that this form doesn't know (colour). It is ignored."]),
            id="an unknown field",
        ),
        pytest.param(
            {"a": "", "b": "", "c<b>\n": "", "d": "", "e": ""},
            (
                [],
                [],
                ["This link has 5 fields that this form doesn't know (a, b, c<b>\\n and 2 more). They are ignored."],
            ),
            id="unknown fields only",
        ),
        pytest.param(
            {"run_time": "4h"},
            ([], [], ["The run time cannot be chosen here."]),
            id="a field that this form does not have",
        ),
        pytest.param(
            {"custom_image": "quay.io/x:1"}, ([], [], ["You can't use a custom image here."]), id="an image of its own"
        ),
        pytest.param({"v": "7"}, ([], [], ["The version of the options must be 1, not 7."]), id="another version"),
        pytest.param(
            {"image": "jupyter/base-notebook:latest", "cpu_limit": "2", "mem_limit": "16G"},
            (
                [],
                [
                    "This link asks for an image that this hub doesn't have (jupyter/base-notebook:latest). "
                    "Pick another."
                ],
                ["This link has 2 fields that this form doesn't know (cpu_limit, mem_limit). They are ignored."],
            ),
            id="a link for a list of profiles",
        ),
        pytest.param({"fill-colour": "red"}, ([], [], []), id="a field of another form to fill in"),
        pytest.param({"gpu": ["mi210", "a100"]}, ([], [], ["This link names two GPUs. Pick one."]), id="two GPUs"),
        pytest.param(
            {"cpu": ["3", "4"]},
            ([], [], ["This link gives more than one value for a field (cpu). Check what the form has."]),
            id="two amounts",
        ),
    ],
)
async def test_a_link_says_what_its_reader_can_change_and_notes_the_rest(
    make_spawner: MakeSpawner, link: dict[str, str | list[str]], said: tuple[list[str], list[str], list[str]]
):
    page = await opened(make_spawner(settings=WITH_PRESET), read_link(link))
    assert told(page) == said
    heading = [each.text.strip() for each in page.select("#gpuspawner-errors > p")]
    assert heading == (["Change this to continue:"] if said[1] else [])


@pytest.mark.parametrize("link", [{"preset": "nope"}, {"gpu_count": "2"}, {"gpu": "foo"}])
async def test_what_is_to_be_changed_never_stands_beside_a_start_that_works(
    make_spawner: MakeSpawner, link: dict[str, str]
):
    page = await opened(make_spawner(settings=WITH_PRESET), query(**link))
    starts = bool(page.select("#gpuspawner-verdict[data-outcome=now]"))
    assert (starts, bool(page.select("#gpuspawner-errors"))) in [(True, False), (False, True)]


async def test_a_type_that_may_be_offered_again_is_not_called_unknown(make_spawner: MakeSpawner, server: WatchServer):
    server.status[NODES] = 403
    page = await opened(make_spawner(), {"fill-gpu": [b"discovered"]})
    assert told(page) == ([], [], [])


async def test_where_links_start_at_once_one_with_an_unknown_field_opens_the_form(make_spawner: MakeSpawner):
    spawner, arguments = make_spawner(settings={**SETTINGS, "links": "start"}), query(gpu="a100", colour="red")
    with pytest.raises(HTTPError):
        await spawner.options_from_query({name: [each.decode() for each in value] for name, value in arguments.items()})
    page = BeautifulSoup(str(await spawner.get_options_form()), "html.parser")
    noted = "This link has 1 field that this form doesn't know (colour). It is ignored."
    assert (value(page, "gpu"), told(page)) == ("a100", ([], [], [noted]))


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


SAVED = {"v": 1, "image": "minimal", "cpu": 6, "memory": "32G", "gpu": "a100", "gpu_count": 3}


@pytest.mark.parametrize(
    ("link", "filled"),
    [
        pytest.param({"cpu": "3"}, ("pytorch", "", "3", "4"), id="no GPU"),
        pytest.param({"gpu": "a100"}, ("pytorch", "a100", "2", "4"), id="a GPU"),
        pytest.param({"fill-gpu": "mi210", "fill-image": "minimal"}, ("minimal", "mi210", "2", "4"), id="filled in"),
        pytest.param({"preset": "big"}, ("pytorch", "", "4", "4"), id="a preset"),
        pytest.param({"gpu": "gone", "cpu": "3"}, ("pytorch", None, "3", "4"), id="a wrong field"),
    ],
)
@pytest.mark.parametrize("saved", [{}, SAVED, {"v": 1, "preset": "big"}], ids=["nothing", "fields", "a preset"])
async def test_a_link_fills_in_the_same_whatever_its_reader_chose_last(
    make_spawner: MakeSpawner, link: dict[str, str], filled: tuple[str | None, ...], saved: dict[str, object]
):
    spawner = make_spawner(settings=WITH_PRESET)
    spawner.user_options = saved
    page = await opened(spawner, read_link(link))
    found = [[str(each["value"]) for each in page.select(f"input[name={name}][checked]")] for name in ("image", "gpu")]
    assert (*[next(iter(each), None) for each in found], value(page, "cpu"), value(page, "memory")) == filled


async def test_a_link_without_a_field_of_the_form_is_none(make_spawner: MakeSpawner):
    spawner = make_spawner()
    spawner.user_options = SAVED
    page = await opened(spawner, query(colour="red"))
    assert (asked(page), value(page, "gpu"), value(page, "cpu")) == ([], "a100", "6")


CUSTOM = {**WITH_PRESET, "custom_images": {"allowed": True}}
LISTED = SETTINGS["images"]["minimal"]["image"]
LIMITED = {**CUSTOM, "policy": {"default": {"max_runtime": "4h"}}}


def listed(page: BeautifulSoup) -> dict[str, str]:
    return {
        str(each["data-fact"]): each.dd.span.text for each in page.select(".gs-facts > div:not([hidden])") if each.dd
    }


@pytest.mark.parametrize(
    ("settings", "link", "facts", "is_foreign"),
    [
        pytest.param(
            CUSTOM,
            {"gpu": "a100", "gpu_count": "2"},
            {"image": "PyTorch", "gpu": "2 × A100", "amounts": "2 CPUs · 4 GiB RAM"},
            False,
            id="an image of the hub",
        ),
        pytest.param(
            CUSTOM,
            {"custom_image": "quay.io/evil:1"},
            {"image": "quay.io/evil:1", "gpu": "No GPU", "amounts": "2 CPUs · 4 GiB RAM"},
            True,
            id="a foreign image",
        ),
        pytest.param(
            CUSTOM,
            {"custom_image": LISTED},
            {"image": LISTED, "gpu": "No GPU", "amounts": "2 CPUs · 4 GiB RAM"},
            False,
            id="an image of the hub by its reference",
        ),
        pytest.param(
            LIMITED,
            {"cpu": "1"},
            {"image": "PyTorch", "gpu": "No GPU", "amounts": "1 CPU · 4 GiB RAM", "run_time": "up to 4 hours"},
            False,
            id="a limit of the run time",
        ),
    ],
)
async def test_the_question_lists_what_would_start(
    make_spawner: MakeSpawner,
    settings: dict[str, object],
    link: dict[str, str],
    facts: dict[str, str],
    is_foreign: bool,
):
    page = await opened(make_spawner(settings=settings), query(**link))
    assert (asked(page), listed(page), bool(page.select(".gs-foreign"))) == (ASKED, facts, is_foreign)
    assert [each.parent.name for each in page.select(".gs-facts") if each.parent] == ["section"]


PROFILES = [{"display_name": "Small", "slug": "small"}, {"display_name": "Large", "slug": "large"}]


async def test_a_link_to_a_profile_beside_fields_asks_with_its_card(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner={"profile_list": PROFILES})
    page = await opened(spawner, query(profile="large"))
    assert asked(page) == ["Start this server?"]
    (fields,) = page.select("details#gpuspawner-custom")
    cards = {str(card["data-profile"]): fields in card.parents for card in page.select(".gs-profile")}
    assert cards == {"large": False, "small": True}


async def test_a_link_to_a_profile_that_is_gone_says_so(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner={"profile_list": PROFILES})
    page = await opened(spawner, query(profile="gone"))
    assert (asked(page), "This link asks for a profile that this hub doesn't have (gone)." in page.get_text()) == (
        [],
        True,
    )


async def test_a_link_to_a_profile_alone_starts_it_as_kubespawner_does(make_spawner: MakeSpawner):
    spawner, arguments = make_spawner(settings={}, kubespawner={"profile_list": PROFILES}), query(profile="large")
    await opened(spawner, arguments)
    assert arguments == query(profile="large")
    assert await maybe_future(spawner.options_from_query({"profile": ["large"]})) == {"profile": "large"}
