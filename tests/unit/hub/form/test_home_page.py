"""JupyterHub's home page tells users what their servers are and when they end, and nothing of other users' servers."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Bounds, Catalog, Image
from gpuspawner.hub.form.home_page import HomePage, ServerDescription, describe_servers
from tests.unit.hub.conftest import SETTINGS
from tests.unit.hub.real_hub import RealHub, real_hub
from tests.unit.kube.watch_server import WatchServer, refusal

CATALOG = Catalog(
    images={"pytorch": Image(slug="pytorch", display_name="PyTorch", image="registry.example/pytorch:1")},
    cpu=Bounds(min=1000, max=8000, step=1000, default=1000),
    memory=Bounds(min=2**30, max=2**36, step=2**30, default=2**30),
    run_time=Bounds(min=3600, max=36_000, step=3600, default=3600),
    gpus={},
)
NOW = datetime(2026, 11, 27, 10, tzinfo=UTC)
PROFILE = "PyTorch · 4 CPUs · 16 GiB · 2 × A100"
OURS = "gpuspawner.jupyter.org/"


class Handler:
    """The part of a request that JupyterHub's ``static_url`` reads."""

    def __init__(self, viewer: Any, languages: str = "en") -> None:
        self.current_user = viewer
        self.request = SimpleNamespace(headers={"Accept-Language": languages})

    def static_url(self) -> None:
        """Stand for JupyterHub's method of this name."""


class User:
    """A user of JupyterHub with servers."""

    name, escaped_name = "ada@x", "ada%40x"

    def __init__(self, *servers: Any, language: str = "", profile_list: Any = None) -> None:
        hub = SimpleNamespace(base_url="/hub/")
        log = logging.getLogger("home-page")
        self.servers = servers
        self.spawner = SimpleNamespace(
            hub=hub,
            has_fields=profile_list is None,
            profile_list=profile_list,
            language=language,
            log=log,
            make_offer=self.make_offer,
            extra_options=["course"],
        )
        self.orm_spawners = {each.name: each for each in servers}

    async def make_offer(self) -> Any:
        """Return what the hub offers, as the spawner's method of this name does."""
        return SimpleNamespace(catalog=CATALOG)

    def all_spawners(self) -> tuple[Any, ...]:
        return self.servers

    def server_url(self, name: str) -> str:
        return f"/user/ada%40x/{name}"


def make_pod(**changes: Any) -> dict[str, Any]:
    annotations = {"gpu": "a100", "gpu-name": "A100 80 GB", "gpu-count": "2", "summary": PROFILE}
    pod = {
        "metadata": {"annotations": {f"{OURS}{name}": value for name, value in annotations.items()}},
        "spec": {"activeDeadlineSeconds": 3 * 3600, "containers": [{"name": "sidecar"}, {"name": "notebook"}]},
        "status": {"startTime": "2026-11-27T09:30:00Z"},
    }
    return {**pod, **changes}


def make_server(*, pod: dict[str, Any] | None, name: str = "", **more: Any) -> Any:
    state = {"active": True, "ready": True, "pending": None, "_start_future": None, "user_options": {}, **more}
    pods = {} if pod is None else {"hub/pod": pod}
    reflector = SimpleNamespace(pods=pods)
    return SimpleNamespace(name=name, namespace="hub", pod_name="pod", pod_reflector=reflector, **state)


def make_row(name: str = "", options: object = None) -> Any:
    """Return the database's row of a server that does not run, which JupyterHub gives in place of a spawner."""
    return SimpleNamespace(name=name, user_options=options)


def describe(server: Any) -> ServerDescription:
    (found,) = describe_servers(User(server), now=NOW)
    return found


def test_a_running_server_is_described_by_its_pod():
    assert describe(make_server(pod=make_pod(), name="lab")) == ServerDescription(
        name="lab",
        title="lab",
        state="running",
        choice=PROFILE,
        gpus="2 × A100 80 GB",
        ends_at=datetime(2026, 11, 27, 12, 30, tzinfo=UTC),
        end="Ends at 12:30 UTC, in 2 h 30 min",
        open_url="/user/ada%40x/lab",
        form_url="/hub/spawn/ada%40x/lab",
        api_url="/hub/api/users/ada%40x/servers/lab",
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param({}, ("running", "/user/ada%40x/"), id="running"),
        pytest.param({"ready": False, "pending": "spawn"}, ("starting", "/hub/spawn-pending/ada%40x"), id="starting"),
        pytest.param({"ready": False, "pending": "stop"}, ("stopping", "/hub/spawn-pending/ada%40x"), id="stopping"),
        pytest.param({"ready": False, "pending": "check"}, ("running", "/user/ada%40x/"), id="checked by a new hub"),
        pytest.param(
            {"ready": False, "pending": "rename", "user_options": {"profile": PROFILE}},
            ("stopped", "/hub/spawn-pending/ada%40x"),
            id="renamed",
        ),
        pytest.param(
            {"ready": False, "active": False, "user_options": {"profile": PROFILE}},
            ("stopped", "/hub/spawn-pending/ada%40x"),
            id="stopped",
        ),
    ],
)
def test_a_server_has_a_state_and_an_address(state: dict[str, Any], expected: tuple[str, str]):
    found = describe(make_server(pod=make_pod(), **state))
    assert ((found.state, found.open_url), found.title) == (expected, "Default server")
    assert (found.form_url, found.api_url) == ("/hub/spawn/ada%40x", "/hub/api/users/ada%40x/server")


async def test_a_server_whose_start_was_cancelled_is_not_called_running():
    start: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    start.cancel()
    assert describe(make_server(pod=make_pod(), _start_future=start)).state == "stopping"


@pytest.mark.parametrize(
    ("left", "sentence"),
    [
        pytest.param(timedelta(seconds=-1), "Its time is over, so it ends now.", id="over"),
        pytest.param(timedelta(seconds=59), "Ends in less than a minute.", id="seconds"),
        pytest.param(timedelta(minutes=59), "Ends at 10:59 UTC, in 59 min", id="minutes"),
        pytest.param(timedelta(hours=13, minutes=5), "Ends at 23:05 UTC, in 13 h 5 min", id="today"),
        pytest.param(timedelta(hours=14), "Ends on 2026-11-28 at 00:00 UTC, in 14 h 0 min", id="tomorrow"),
        pytest.param(timedelta(days=3, hours=2), "Ends on 2026-11-30 at 12:00 UTC, in 3 d 2 h", id="days"),
    ],
)
def test_the_end_is_shown_in_a_sentence(left: timedelta, sentence: str):
    status = {"startTime": (NOW + left - timedelta(hours=3)).isoformat()}
    assert describe(make_server(pod=make_pod(status=status))).end == sentence


@pytest.mark.parametrize(
    ("pod", "state", "sentence"),
    [
        pytest.param(
            make_pod(status={}),
            {"ready": False, "pending": "spawn"},
            "The time limit of 3 hours begins when the server gets a node.",
            id="not begun",
        ),
        pytest.param(make_pod(spec={"containers": []}), {}, "", id="no end"),
        pytest.param(None, {}, "It's not known at the moment when it ends.", id="pod not seen"),
        pytest.param(None, {"ready": False, "pending": "spawn"}, "", id="no pod yet"),
    ],
)
def test_an_end_that_is_not_known_is_not_made_up(pod: dict[str, Any] | None, state: dict[str, Any], sentence: str):
    found = describe(make_server(pod=pod, **state))
    assert (found.end, found.ends_at) == (sentence, None)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(None, id="nothing"),
        pytest.param("profile", id="text"),
        pytest.param({"profile": {"a": 1}}, id="profile that is no text"),
        pytest.param({}, id="no profile"),
    ],
)
def test_a_server_that_never_ran_is_left_out_whatever_its_stored_options_are(options: object):
    assert describe_servers(User(make_row(options=options)), now=NOW) == ()


def test_a_pod_without_our_marks_is_shown_without_a_choice():
    found = describe(make_server(pod={"metadata": {}, "spec": {"containers": [{}]}, "status": {}}, user_options=[1]))
    assert (found.state, found.choice, found.gpus, found.end) == ("running", "", "", "")


@pytest.mark.parametrize(
    ("annotations", "gpus"),
    [
        pytest.param({"gpu": "a100", "gpu-name": "A100", "gpu-count": "2"}, "2 × A100", id="with a name"),
        pytest.param({"gpu": "a100", "gpu-count": "2"}, "2 × a100", id="of an earlier version"),
        pytest.param({"gpu": "", "gpu-name": "nvidia.com/gpu", "gpu-count": "1"}, "1 × nvidia.com/gpu", id="no type"),
        pytest.param({"summary": "Small"}, "", id="no GPU"),
    ],
)
def test_the_gpus_are_those_in_the_annotations_of_the_pod(annotations: dict[str, str], gpus: str):
    pod = make_pod(metadata={"annotations": {f"{OURS}{name}": value for name, value in annotations.items()}})
    assert describe(make_server(pod=pod)).gpus == gpus


PROFILES = [{"display_name": "Small &lt;server&gt;", "slug": "small-server"}, {"display_name": "Large", "slug": "big"}]


@pytest.mark.parametrize(
    ("profile_list", "stored", "choice"),
    [
        pytest.param(PROFILES, "small-server", "Small <server>", id="slug"),
        pytest.param(PROFILES, "gone", "gone", id="no longer offered"),
    ],
)
def test_a_stopped_server_is_described_by_the_name_of_its_profile(profile_list: Any, stored: str, choice: str):
    user = User(make_row(options={"profile": stored}), profile_list=profile_list)
    assert [each.choice for each in describe_servers(user, now=NOW)] == [choice]


# -- the section ----------------------------------------------------------------------------------------------------


async def test_the_section_shows_texts_of_users_as_text():
    hostile = "<script>alert(1)</script>"
    servers = [make_row(hostile, {"profile": f'{hostile}" onload="x'}), make_row("", {"profile": PROFILE})]
    page = await render(User(*servers))
    assert (hostile in page, "&lt;script&gt;alert(1)&lt;/script&gt;&#34; onload=&#34;x" in page) == (False, True)
    assert PROFILE in page


@pytest.mark.parametrize(
    ("languages", "language", "word"),
    [
        pytest.param("en", "", "Your servers", id="English"),
        pytest.param("de-AT,en;q=0.5", "", "Ihre Server", id="the browser's"),
        pytest.param("de-AT,en;q=0.5", "zh-CN", "您的服务器", id="the admin's"),
    ],
)
async def test_the_section_is_in_the_language_of_the_form(languages: str, language: str, word: str):
    user = User(make_row(options={"profile": PROFILE}), language=language)
    assert word in await render(user, Handler(user, languages))


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        pytest.param(
            "PyTorch · 2 CPUs · 1 GiB · up to 2 hours",
            "PyTorch · 2 CPUs · 1 GiB · höchstens 2 Stunden",
            id="as it was stored",
        ),
        pytest.param("PyTorch · 2 CPUs · old name", "PyTorch · 2 CPUs · old name", id="settings changed since"),
    ],
)
async def test_a_choice_that_was_stored_in_english_is_translated_if_it_still_means_the_same(stored: str, shown: str):
    options = {"image": "pytorch", "cpu": 2, "gpu": None, "run_time": "2h", "profile": stored, "course": "a"}
    user = User(make_row(options=options))
    last = await HomePage().render_last_choice(user, Handler(user, "de").static_url, server_name="")
    assert [shown in page for page in (await render(user, Handler(user, "de")), last)] == [True, True]


async def test_nothing_is_shown_to_a_viewer_who_is_another_user():
    user, admin = User(make_server(pod=make_pod())), User()
    admin.name = "admin"
    assert [await render(user, Handler(viewer)) for viewer in (admin, None)] == ["", ""]
    assert str(await HomePage().render_last_choice(user, Handler(admin).static_url, server_name="")) == ""


async def test_the_last_choice_of_a_profile_is_shown_by_its_name():
    user = User(make_row(options={"profile": "small-server"}), profile_list=PROFILES)
    last = str(await HomePage().render_last_choice(user, Handler(user).static_url, server_name=""))
    assert "Small &lt;server&gt;" in last


async def test_nothing_is_shown_to_users_of_another_spawner_or_without_servers():
    user = User(make_server(pod=make_pod()))
    del user.spawner.has_fields
    assert [(await render(each)).strip() for each in (user, User())] == ["", ""]


async def test_an_error_leaves_jupyterhubs_page_as_it_is_and_is_logged(caplog: pytest.LogCaptureFixture):
    user = User(SimpleNamespace(name=1))
    assert await render(user) == ""
    assert [each.getMessage() for each in caplog.records] == ["Cannot describe the servers of ada@x"]


async def render(user: Any, handler: Handler | None = None) -> str:
    return str(await HomePage().render(user, (handler or Handler(user)).static_url))


async def begin(hub: RealHub, options: dict[str, Any]) -> None:
    """Begin a start, and wait until the hub has admitted its options."""

    async def has_choice() -> bool:
        _, found = await hub.ask("GET", "users/ada")
        return "profile" in found["servers"].get("", {}).get("user_options", {})

    await hub.begin("ada", options)
    await hub.wait(has_choice, True)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_pages_of_jupyterhub_show_a_users_own_servers_and_an_admins_page_may_too(
    server: WatchServer, tmp_path: Path
):
    """All supported versions of JupyterHub must have the blocks that the templates replace."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "home.html").write_text(
        '{% extends "templates/home.html" %}'
        "{% block main %}site{{ gpuspawner_home.render(user, static_url) }}{% endblock %}"
    )
    options = {"image": "pytorch", "cpu": 1, "memory": "1G", "gpu": "a100", "gpu_count": 1}
    config: dict[str, Any] = {
        "JupyterHub": {"allow_named_servers": True},
        "Authenticator": {"admin_users": ["root"]},
        "GPUSpawner": SETTINGS,
        "KubeSpawner": {"namespace": "default"},
    }
    (tmp_path / "one").mkdir()
    async with real_hub(tmp_path / "one", api=server.url, config=config) as hub:
        await begin(hub, options)
        await hub.ask("POST", "users/bob")
        (home,) = await hub.read_pages("ada", "/hub/home")
        (others,) = await hub.read_pages("bob", "/hub/home")
        pages = await hub.read_pages("root", "/hub/home", "/user/ada/")
        await hub.ask("DELETE", "users/ada/server")
        await hub.wait_until("ada", "stopped")
        (canceled,) = await hub.read_pages("ada", "/user/ada/")
        server.answers["POST", "/api/v1/namespaces/default/pods"] = refusal(422)
        await hub.begin("ada", options)
        await hub.wait_until("ada", "stopped")
        (last,) = await hub.read_pages("ada", "/user/ada/")
        roots = await hub.read_pages("root", "/user/ada/")
        server.answers.clear()
    config["JupyterHub"]["template_paths"] = [str(folder)]
    (tmp_path / "two").mkdir()
    async with real_hub(tmp_path / "two", api=server.url, config=config) as hub:
        await begin(hub, options)
        (site,) = await hub.read_pages("ada", "/hub/home")

    for page in (home, site):
        assert ["1 × A100" in page, 'data-state="starting"' in page] == [True, True], page
    assert "site" in site
    assert ["gpuspawner-servers" in page for page in (others, pages[0])] == [False, False]
    assert [page for page in (*pages, *roots) if "500 :" in page] == []
    # The waiting page shows an admin the start of another user's server.
    assert ["1 × A100" in page for page in (*pages, *roots)] == [False, True, False]
    assert "Your last choice:" not in canceled
    assert ["Your last choice:" in last, "1 × A100" in last] == [True, True], last
