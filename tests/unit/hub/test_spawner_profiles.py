"""A server of KubeSpawner's profiles, without settings of gpuspawner: its GPUs, pages, metrics and refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.app import JupyterHub
from jupyterhub.utils import format_exception

from gpuspawner.core.progress.model import Report, Stage
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.alternatives import AlternativesFinder, add_alternatives
from gpuspawner.hub.start.waiting_page import WaitingPages
from tests.unit.hub.conftest import A100, GPU_NODE, MakeSpawner, node
from tests.unit.hub.counts import sample
from tests.unit.hub.followed import UNSCHEDULABLE, cut_off, sent
from tests.unit.hub.hub_requests import RealHub
from tests.unit.hub.pages import opened, text
from tests.unit.hub.starts import begin, our_annotations, pod_of
from tests.unit.kube.watch_server import NODES, WatchServer, eventually, refusal

PROGRESS = "/hub/api/users/ada/server/progress"
GPU = "nvidia.com/gpu"
ON_A100 = {"node_selector": {"nvidia.com/gpu.product": A100}}


def profile(slug: str, name: str, **override: Any) -> dict[str, Any]:
    return {"slug": slug, "display_name": name, "kubespawner_override": override}


PROFILES = [
    profile("cpu", "CPU only"),
    profile("a100", "One A100", extra_resource_limits={GPU: "1"}, **ON_A100),
    profile("four", "Four A100", extra_resource_limits={GPU: "4"}, **ON_A100),
    profile("odd", "An Intel", extra_resource_limits={"gpu.intel.com/i915": "2"}),
    profile("too-big", "Too big", cpu_guarantee=99, node_selector={"kubernetes.io/hostname": "cpu-1"}),
]
TRAITS = {"profile_list": PROFILES, "namespace": "default"}
SLUG = "a100-80gb"
"""Slug of the type that gpuspawner finds on the node with GPUs."""
NAMED_CPU_NODE = node("cpu-1", {"kubernetes.io/hostname": "cpu-1"})


@pytest.fixture
async def spawner(make_spawner: MakeSpawner) -> GPUSpawner:
    return make_spawner(settings={}, kubespawner=TRAITS)


def posts(server: WatchServer) -> list[str]:
    """Return what was sent to be created, dry runs and reviews aside."""
    sent = (each for each in server.requests if each.method == "POST" and each.path.startswith("/api/v1/namespaces/"))
    return [each.path.rpartition("/")[2] for each in sent if "dryRun" not in each.query]


# -- annotations and metrics -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slug", "expected"),
    [
        pytest.param("cpu", {"summary": "CPU only"}, id="no GPU"),
        pytest.param(
            "a100",
            {"summary": "One A100 · 1 × A100 80 GB", "gpu": SLUG, "gpu-name": "A100 80 GB", "gpu-count": "1"},
            id="a type that labels tell",
        ),
        pytest.param(
            "odd",
            {
                "summary": "An Intel · 2 × gpu.intel.com/i915",
                "gpu": "",
                "gpu-name": "gpu.intel.com/i915",
                "gpu-count": "2",
            },
            id="a type that no label tells",
        ),
    ],
)
async def test_the_pod_says_which_profile_and_gpus_it_has(spawner: GPUSpawner, slug: str, expected: dict[str, str]):
    assert our_annotations(await pod_of(spawner, {"profile": slug})) == expected


async def test_gpus_that_no_label_tells_apart_have_the_name_of_their_resource(spawner: GPUSpawner, server: WatchServer):
    t4 = node("t4-1", {"nvidia.com/gpu.product": "Tesla-T4"}, **{GPU: "1"})
    server.put(NODES, t4)
    spawner.profile_list = [profile("any", "Any GPU", extra_resource_limits={GPU: "1"})]
    found = our_annotations(await pod_of(spawner, {"profile": "any"}))
    assert found == {"summary": f"Any GPU · 1 × {GPU}", "gpu": "", "gpu-name": GPU, "gpu-count": "1"}


@pytest.mark.parametrize(("slug", "label"), [("cpu", "none"), ("a100", SLUG), ("odd", "other")])
@pytest.mark.parametrize("has_claim", [False, True], ids=["no claim", "claim"])
async def test_a_start_is_counted_by_the_type_of_its_pods_gpu(
    make_spawner: MakeSpawner, server: WatchServer, slug: str, label: str, has_claim: bool
):
    claim = {"storage_pvc_ensure": has_claim, "storage_capacity": "1Gi"}
    spawner = make_spawner(settings={}, kubespawner={**TRAITS, **claim})
    before = {each: sample("spawns_total", gpu=each, outcome="cancelled") for each in ("none", SLUG, "other")}
    spawner.user_options = {"profile": slug}
    spawner._spawn_future = future = asyncio.get_running_loop().create_future()
    start = spawner.start()
    await sent(server, spawner)
    await cut_off(start)
    future.cancel()
    await asyncio.sleep(0)  # lets the future tell that it was canceled
    counted = {each: sample("spawns_total", gpu=each, outcome="cancelled") - number for each, number in before.items()}
    assert counted == {each: float(each == label) for each in before}


async def test_a_profile_that_does_not_exist_counts_as_a_refusal(spawner: GPUSpawner):
    names = {
        "spawns_total": {"gpu": "other", "outcome": "unknown_choice"},
        "refusals_total": {"reason": "unknown_choice"},
    }
    before = {name: sample(name, **labels) for name, labels in names.items()}

    async def start() -> None:
        await begin(spawner, {"profile": "gone"})

    spawner._spawn_future = future = asyncio.ensure_future(start())
    await asyncio.wait([future])
    await asyncio.sleep(0)
    assert isinstance(future.exception(), RefusedStart)
    assert {name: sample(name, **labels) - before[name] for name, labels in names.items()} == dict.fromkeys(names, 1)


# -- pages -------------------------------------------------------------------------------------------------------------


async def page_of(spawner: GPUSpawner) -> tuple[str, BeautifulSoup, dict[str, Any]]:
    """Return the title, the page and its script's data."""
    page = await WaitingPages().build(spawner, PROGRESS)
    assert page is not None
    content = BeautifulSoup(page.content, "html.parser")
    data = content.select_one("#gpuspawner-data")
    assert data is not None
    return page.title, content, json.loads(data.get_text())


@pytest.mark.parametrize(
    ("slug", "stage", "title", "headline"),
    [
        ("a100", Stage.WAITING, "Waiting · 1 × A100 80 GB", "Waiting for 1 × A100 80 GB"),
        ("odd", Stage.WAITING, "Waiting · 2 × gpu.intel.com/i915", "Waiting for 2 × gpu.intel.com/i915"),
        ("cpu", Stage.CHECKING, "Starting · CPU only", "Starting CPU only"),
        ("cpu", Stage.WAITING, "Waiting · CPU only", "Waiting for a free node"),
    ],
    ids=["waits", "unknown type", "starts without a GPU", "waits without a GPU"],
)
async def test_the_waiting_page_names_the_profile_and_its_gpus(
    spawner: GPUSpawner, slug: str, stage: Stage, title: str, headline: str
):
    await pod_of(spawner, {"profile": slug})
    spawner.start_state.feed.publish([Report(stage=stage, sentence="It is so.", percent=10)], percent=10)
    found, page, data = await page_of(spawner)
    lines = {"a100": "One A100 · 1 × A100 80 GB", "odd": "An Intel · 2 × gpu.intel.com/i915", "cpu": "CPU only"}
    assert (found, text(page, "h1"), text(page, ".gs-choice")) == (title, headline, lines[slug])
    assert data["change_url"] == f"{spawner.hub.base_url}spawn/ada"


async def test_the_waiting_page_waits_for_the_pod_that_says_which_gpus(spawner: GPUSpawner):
    await begin(spawner, {"profile": "a100"})
    building = asyncio.ensure_future(page_of(spawner))
    await asyncio.sleep(0.05)
    await spawner.get_pod_manifest()
    assert (await building)[0] == "Starting · 1 × A100 80 GB"


async def test_a_page_of_a_start_without_a_pod_names_the_profile(spawner: GPUSpawner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpuspawner.hub.start.waiting_page._POD_BUILT_S", 0.01)
    await begin(spawner, {"profile": "a100"})
    title, page, _ = await page_of(spawner)
    assert (title, text(page, ".gs-choice")) == ("Starting · One A100", "One A100")


async def test_after_a_restart_of_the_hub_the_pod_tells_pages_and_metrics_what_was_chosen(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gpuspawner.hub.start.waiting_page._POD_BUILT_S", 0.01)
    pod = await pod_of(make_spawner(settings={}, kubespawner=TRAITS), {"profile": "a100"})
    pod["metadata"] |= {"namespace": "default", "uid": "1", "creationTimestamp": "2026-11-22T10:00:00Z"}
    pod["status"] = {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    server.put("/api/v1/namespaces/default/pods", pod)
    spawner = make_spawner(settings={}, kubespawner=TRAITS)
    spawner.user_options = {"profile": "a100"}
    await spawner._start_watching_pods()
    title, page, _ = await page_of(spawner)
    assert (title, text(page, ".gs-choice")) == (
        "Starting · 1 × A100 80 GB",
        "One A100 · 1 × A100 80 GB",
    )


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_claim", [False, True], ids=["no claim", "claim"])
async def test_a_profile_that_can_never_fit_is_refused_before_anything_is_made(
    make_spawner: MakeSpawner, server: WatchServer, has_claim: bool
):
    server.put(NODES, GPU_NODE, NAMED_CPU_NODE)
    claim = {"storage_pvc_ensure": has_claim, "storage_capacity": "1Gi"}
    spawner = make_spawner(settings={}, kubespawner={**TRAITS, **claim})
    spawner.user_options = {"profile": "too-big"}
    with pytest.raises(RefusedStart) as refused:
        await spawner.start()
    assert (refused.value.code, posts(server)) == ("never_fits", [])
    assert await spawner.poll() == 0


@pytest.mark.parametrize("answer", [refusal(403), refusal(500)], ids=["no permission", "failing"])
async def test_a_profile_starts_although_the_hub_cannot_read_nodes(
    make_spawner: MakeSpawner, server: WatchServer, answer: Any
):
    server.answers["GET", NODES] = answer
    spawner = make_spawner(settings={}, kubespawner=TRAITS)
    spawner.user_options = {"profile": "a100"}
    start = spawner.start()
    await sent(server, spawner)
    await cut_off(start)
    assert posts(server) == ["pods"]


async def test_other_profiles_that_start_now_are_named_those_with_a_gpu_first(spawner: GPUSpawner):
    await begin(spawner, {"profile": "four"})
    error = await add_alternatives(RefusedStart("No.", reason="evicted", status_code=409), spawner)
    message, html = format_exception(error)
    assert message == "No. Try One A100 or CPU only instead."
    assert '<a href="/spawn/ada?fill-profile=a100">One A100</a>' in html
    waits = Report(stage=Stage.WAITING, sentence="It waits.", percent=10, lacks_room=True)
    spawner.start_state.feed.begin()
    spawner.start_state.feed.publish([waits], percent=10)
    with spawner.start_state.feed.read():
        await AlternativesFinder(spawner, spawner.start_state.feed).update()
    assert [choice.text for choice in spawner.start_state.feed.alternatives] == ["One A100", "CPU only"]


async def test_a_link_to_another_profile_picks_its_card_and_starts_nothing(spawner: GPUSpawner):
    page = await opened(spawner, {"fill-profile": [b"a100"]})
    assert [card["data-profile"] for card in page.select(".gs-profile[data-picked]")] == ["a100"]


async def test_the_options_are_stored_exactly_as_they_were_sent(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    options = {"profile": "a100", "gpu": "h900", "cpu": [1], "extra": {"a": 1}}
    hub = RealHub({"KubeSpawner": {**TRAITS, "start_timeout": 1}})
    monkeypatch.setattr(JupyterHub, "_instance", hub.app)
    user = hub.add_user("ada")
    start = asyncio.ensure_future(hub.start(user, options))
    await eventually(lambda: "pods" in posts(server))
    assert (hub.stored(user), user.spawners[""].user_options) == (options, options)
    await start
