"""Links that fill in the form start nothing, and reach it whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jupyterhub
import pytest

from gpuspawner.core.request.selection import Selection
from gpuspawner.hub.request import context
from gpuspawner.hub.request.context import build_prefill_url, take_prefill
from tests.unit.hub.conftest import SETTINGS, MakeSpawner

CHOICE = Selection(image="pytorch", cpu_millis=2000, memory_bytes=4 << 30, gpu="a100", gpu_count=2)


def handler(query: dict[str, list[bytes]], method: str = "GET") -> Any:
    return SimpleNamespace(request=SimpleNamespace(method=method, query_arguments=query, headers={}))


def asked(link: str) -> dict[str, list[bytes]]:
    """Return a link's query as tornado reads it."""
    return {
        name: [each.encode() for each in texts]
        for name, texts in parse_qs(urlsplit(link).query, keep_blank_values=True).items()
    }


async def test_a_link_leads_to_the_servers_own_page(make_spawner: MakeSpawner):
    assert build_prefill_url(make_spawner(), CHOICE).startswith(
        "/spawn/ada?fill-image=pytorch&fill-custom_image=&fill-cpu=2"
    )
    spawner = make_spawner(name="ada b")
    spawner.user.escaped_name = "ada%20b"
    spawner.orm_spawner = SimpleNamespace(name="my lab", server=None)
    assert build_prefill_url(spawner, CHOICE).startswith("/spawn/ada%20b/my%20lab?fill-")


async def test_what_a_link_names_stands_in_the_form_and_is_no_option_of_a_start(make_spawner: MakeSpawner):
    spawner = make_spawner()
    query = {**asked(build_prefill_url(spawner, CHOICE)), "next": [b"/x"]}
    spawner.handler = handler(query)
    assert query == {"next": [b"/x"]}
    form = await spawner.get_options_form()
    assert '"gpu":"a100","gpu_count":"2"' in form
    # Only once.
    assert context.take_draft() is None


async def test_saved_options_do_not_mix_with_a_link(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={**SETTINGS, "custom_images": {"allowed": True}})
    spawner.user_options = {"custom_image": "acme/own:1"}
    spawner.handler = handler(asked(build_prefill_url(spawner, CHOICE)))
    form = await spawner.get_options_form()
    assert '"image":"pytorch"' in form
    assert "acme/own" not in form


async def test_a_link_that_fills_in_the_form_starts_nothing_whatever_else_it_names(make_spawner: MakeSpawner):
    query = {**asked("?fill-gpu=a100&gpu=t4&opt-cpu=4&preset=train&next=%2Fx&display_name=lab")}
    spawner = make_spawner()
    spawner.handler = handler(query)
    # JupyterHub 5 takes a name for an option, and starts a server.
    assert query == {"next": [b"/x"], **({"display_name": [b"lab"]} if jupyterhub.version_info >= (6,) else {})}
    assert '"gpu":"a100"' in await spawner.get_options_form()


@pytest.mark.parametrize(
    ("link", "left"),
    [
        pytest.param("?utm_source=mail&utm_campaign=spring&gclid=x&fbclid=y", {}, id="nothing else"),
        pytest.param("?opt-gpu=a100&utm_source=mail", {"opt-gpu": [b"a100"]}, id="a start"),
        pytest.param("?fill-gpu=a100&fbclid=y", {}, id="a form that is filled in"),
    ],
)
async def test_what_mail_programs_and_social_networks_add_to_a_link_is_ignored(
    make_spawner: MakeSpawner, link: str, left: dict[str, list[bytes]]
):
    query = asked(link)
    make_spawner(settings={**SETTINGS, "links": "start"}).handler = handler(query)
    assert query == left


@pytest.mark.parametrize(
    "request_",
    [
        None,
        handler({}),
        handler({"gpu": [b"a100"]}),
        handler({"fill-gpu": [b"a100"]}, "POST"),
        SimpleNamespace(request=SimpleNamespace(method="GET")),
    ],
)
def test_other_requests_are_left_alone(request_: Any):
    take_prefill(request_)
    assert context.take_draft() is None


def test_names_that_are_no_fields_and_bytes_that_are_no_text_do_no_harm():
    query = {"fill-nope": [b"1"], "fill-image": [b"\xff"]}
    take_prefill(handler(query))
    draft = context.take_draft()
    assert draft is not None
    assert (query, draft.typed) == ({}, {"image": "\ufffd"})


async def test_a_form_that_is_not_ours_gets_its_own_options(make_spawner: MakeSpawner):
    traits = {"profile_list": [{"display_name": "A"}], "profile_form_template": "<p>Ours</p>"}
    spawner = make_spawner(settings={}, kubespawner=traits)
    query = {"fill-gpu": [b"a100"]}
    spawner.handler = handler(query)
    assert query == {"fill-gpu": [b"a100"]}
