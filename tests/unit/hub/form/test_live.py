"""The verdict on a choice, and what to pick instead."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.core.autoscaling.cluster_autoscaler import NodeGrowth
from gpuspawner.core.form.build import LiveState
from gpuspawner.core.request.selection import Selection, validate
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.hub.form.live import build_live
from gpuspawner.hub.pod.preview import PodPreviews
from tests.unit.hub import kueue_server as kueue
from tests.unit.hub.conftest import A100, CLOSED, CPU_NODE, GPU_NODE, SETTINGS, MakeSpawner, node
from tests.unit.kube.watch_server import (
    NODE_POOLS,
    NODES,
    NVIDIA_CLASS,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    WatchServer,
    eventually,
    node_pool,
    pod,
)


async def live(spawner: Any, options: dict[str, Any] | None) -> LiveState:
    offer = await spawner.make_offer()
    selection = None if options is None else validate(options, offer.catalog)
    return await build_live(spawner, offer, selection=selection)


async def predict(spawner: Any, options: dict[str, Any]) -> Verdict:
    verdict = (await live(spawner, options)).verdict
    assert verdict is not None
    return verdict


async def test_a_choice_that_has_to_wait_comes_with_a_nearer_one(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    await spawner.make_offer()
    server.put(PODS, pod("other", on="gpu-1", gpus=2))
    store = spawner.offer_factory.known_store
    assert store is not None
    await eventually(lambda: store._occupancy.get_requested("gpu-1"))
    found = await live(spawner, {"gpu": "a100", "gpu_count": 4, "cpu": 1, "memory": "1G"})
    assert found.verdict is not None
    assert found.verdict.outcome is Outcome.WAITS
    assert [(each.gpu, each.gpu_count) for each in found.alternatives] == [("a100", 2)]


async def test_where_no_node_can_be_read_it_is_unknown(make_spawner: MakeSpawner, server: WatchServer):
    server.status[NODES] = 403
    found = await live(make_spawner(), {"gpu": "a100", "gpu_count": 1})
    assert found.verdict is not None
    assert (found.verdict.outcome, found.alternatives) == (Outcome.UNKNOWN, ())


async def test_without_the_pods_of_others_it_says_what_the_hubs_own_servers_hold(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    server.status[PODS] = 403
    spawner = make_spawner()

    async def counts() -> list[tuple[int | None, int | None]]:
        return [(each.free, each.own) for each in (await live(spawner, None)).availabilities or ()]

    assert await counts() == [(None, None), (None, None)]
    loaded = asyncio.get_running_loop().create_future()
    loaded.set_result(None)
    reflector = SimpleNamespace(first_load_future=loaded, pods={"a": pod("a", on="gpu-1", gpus=3)})
    monkeypatch.setattr(type(spawner), "pod_reflector", reflector)
    assert [(each.free, each.own) for each in (await live(spawner, None)).availabilities or ()] == [
        (None, 3),
        (None, 0),
    ]


async def test_types_with_room_for_all_of_it_come_before_those_with_some(
    make_spawner: MakeSpawner, server: WatchServer
):
    sizes = {f"x{number}": "4" if number == 7 else "1" for number in range(8)}
    gpus = {**SETTINGS["gpus"], **{name: card(name) for name in sizes}}
    server.put(NODES, *(node(name, {"gpu": name}, **{"nvidia.com/gpu": size}) for name, size in sizes.items()))
    server.put(PODS, pod("other", on="gpu-1", gpus=4))
    found = await live(make_spawner(settings={**SETTINGS, "gpus": gpus}), {"gpu": "a100", "gpu_count": 4, "cpu": 1})
    assert [(each.gpu, each.gpu_count) for each in found.alternatives] == [("x7", 4)]


async def test_only_a_few_types_are_tried(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    gpus = {**SETTINGS["gpus"], **{name: card(name) for name in ("x", "y", "z")}}
    server.put(NODES, *(node(name, {"gpu": name}, **{"nvidia.com/gpu": "4"}) for name in ("x", "y", "z")))
    server.put(PODS, pod("other", on="gpu-1", gpus=2))
    spawner = make_spawner(settings={**SETTINGS, "gpus": gpus})
    written: list[str | None] = []
    original = PodPreviews._make

    async def noted(previews: PodPreviews, selection: Selection) -> Any:
        written.append(selection.gpu)
        return await original(previews, selection)

    monkeypatch.setattr(PodPreviews, "_make", noted)
    found = await live(spawner, {"gpu": "a100", "gpu_count": 4, "cpu": 1, "memory": "1G"})
    assert [(each.gpu, each.gpu_count) for each in found.alternatives] == [("a100", 2), ("x", 4), ("y", 4)]
    assert written == ["a100", "x", "y"]


async def test_a_node_with_room_for_what_is_requested_is_enough(make_spawner: MakeSpawner, server: WatchServer):
    big = {**card("big"), "memory": "80G"}
    gpus = {**SETTINGS["gpus"], "big": big, **{name: {**card(name), "memory": "16G"} for name in ("s1", "s2")}}
    server.put(NODES, node("big", {"gpu": "big"}, **{"nvidia.com/gpu": "4", "cpu": "5"}))
    server.put(NODES, *(node(name, {"gpu": name}, **{"nvidia.com/gpu": "4"}) for name in ("s1", "s2")))
    server.put(PODS, pod("other", on="gpu-1", gpus=4))
    settings = {**SETTINGS, "gpus": {**gpus, "a100": {**SETTINGS["gpus"]["a100"], "memory": "80G"}}}
    found = await live(make_spawner(settings=settings), {"gpu": "a100", "gpu_count": 1, "cpu": 8, "memory": "1G"})
    assert [each.gpu for each in found.alternatives] == ["big", "s1"]


def card(product: str) -> dict[str, Any]:
    match = {"gpu": [product]}
    return {"display_name": product, "resource": "nvidia.com/gpu", "vendor": "nvidia", "match": match, "max_count": 4}


async def test_what_karpenter_may_add_is_part_of_it(make_spawner: MakeSpawner, server: WatchServer):
    server.delete(NODES, GPU_NODE)
    requirement = {"key": "nvidia.com/gpu.product", "operator": "In", "values": [A100]}
    server.put(NODE_POOLS, node_pool("a100", requirements=[requirement]))
    found = await predict(make_spawner(), {"gpu": "a100", "gpu_count": 1})
    assert (found.outcome, found.pool) == (Outcome.AFTER_SCALE_UP, "a100")


AUTOSCALER_STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"


@pytest.mark.parametrize(
    ("more", "is_running", "growth", "number"),
    [
        pytest.param({}, False, NodeGrowth.FULL, 1, id="no such node is running"),
        pytest.param({}, True, NodeGrowth.UNSEEN, 0, id="one is running"),
        pytest.param({"new_nodes": "none"}, False, NodeGrowth.UNSEEN, 0, id="nothing adds nodes"),
    ],
)
async def test_the_status_of_the_cluster_autoscaler_is_read_only_where_a_node_must_be_added(
    make_spawner: MakeSpawner,
    server: WatchServer,
    more: dict[str, Any],
    is_running: bool,
    growth: NodeGrowth,
    number: int,
):
    if not is_running:
        server.delete(NODES, GPU_NODE)
    written = {"cluster-autoscaler.kubernetes.io/last-updated": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S %z} UTC"}
    text = "nodeGroups:\n- name: g\n  health:\n    cloudProviderTarget: 4\n    maxSize: 4\n"
    server.bodies[AUTOSCALER_STATUS] = json.dumps({"metadata": {"annotations": written}, "data": {"status": text}})
    spawner = make_spawner(settings={**SETTINGS, **more})
    for _ in range(2):
        found = await predict(spawner, {"gpu": "a100", "gpu_count": 1})
    assert (found.growth, len(server.asked(AUTOSCALER_STATUS, watch=False))) == (growth, number)


PRESETS = {
    "small": {"image": "minimal", "cpu": 1, "memory": "1G"},
    "one": {"image": "pytorch", "gpu": "a100", "gpu_count": 1},
    "all": {"image": "minimal", "gpu": "a100", "gpu_count": 4},
}


async def outcomes(spawner: Any, options: dict[str, Any] | None) -> dict[str, Outcome]:
    return {slug: each.outcome for slug, each in (await live(spawner, options)).presets.items()}


@pytest.mark.parametrize("options", [None, {"gpu": "a100", "gpu_count": 4}])
async def test_each_preset_has_a_verdict_of_its_own_whatever_stands_in_the_fields(
    make_spawner: MakeSpawner, server: WatchServer, options: dict[str, Any] | None
):
    server.put(PODS, pod("other", on="gpu-1", gpus=2))
    spawner = make_spawner(settings={**SETTINGS, "presets": PRESETS})
    assert await outcomes(spawner, options) == {
        "small": Outcome.NOW,
        "one": Outcome.NOW,
        "all": Outcome.WAITS,
    }


async def test_presets_get_no_verdict_while_it_is_unknown(make_spawner: MakeSpawner, server: WatchServer):
    server.status[NODES] = 403
    spawner = make_spawner(settings={**SETTINGS, "presets": PRESETS})
    assert await outcomes(spawner, {}) == {}


async def test_a_preset_whose_pod_cannot_be_built_takes_nothing_from_the_others(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    prepare = PodPreviews.prepare

    async def fail_for_one(self: PodPreviews, selection: Selection, **more: Any) -> None:
        if selection.gpu_count == 1:
            raise TypeError("no mapping")
        await prepare(self, selection, **more)

    monkeypatch.setattr(PodPreviews, "prepare", fail_for_one)
    spawner = make_spawner(settings={**SETTINGS, "presets": PRESETS})
    assert await outcomes(spawner, None) == {"small": Outcome.NOW, "all": Outcome.NOW}
    assert "'one'" in caplog.text


async def test_only_the_first_presets_are_judged(make_spawner: MakeSpawner):
    presets = {f"p{number}": {"image": "minimal"} for number in range(20)}
    spawner = make_spawner(settings={**SETTINGS, "presets": presets})
    assert list(await outcomes(spawner, {})) == [f"p{number}" for number in range(8)]


QUEUED = {**SETTINGS, "queue": {"local_queue": "gpu-queue", "gpus": ["a100"]}}


async def test_when_a_server_starts_that_kueue_queues_is_for_kueue_to_say(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.status |= dict.fromkeys(kueue.PATHS, 403)
    found = await predict(make_spawner(settings=QUEUED), {"gpu": "a100", "gpu_count": 1})
    assert (found.outcome, found.reason) == (
        Outcome.UNKNOWN,
        "The queue gpu-queue decides when it may start.",
    )


@pytest.mark.parametrize(
    ("gpus", "used", "expected"),
    [
        pytest.param(4, 0, (Outcome.NOW, None, ""), id="room"),
        pytest.param(4, 4, (Outcome.WAITS, 1, "The quota of the queue gpu-queue is in use."), id="in use"),
        pytest.param(
            1,
            0,
            (Outcome.NEVER, None, "The server requests 2 × A100; the queue gpu-queue never admits more than 1."),
            id="too small",
        ),
    ],
)
async def test_the_form_says_what_the_queue_will_say(
    make_spawner: MakeSpawner, server: WatchServer, gpus: int, used: int, expected: tuple[Outcome, int | None, str]
):
    kueue.serve(server, gpus=gpus, used=used, waiting=(10, 0))
    settings = {**QUEUED, "queue": {**QUEUED["queue"], "priority_class": "people"}}
    found = await predict(make_spawner(settings=settings), {"gpu": "a100", "gpu_count": 2})
    assert (found.outcome, found.ahead, found.reason) == expected


@pytest.mark.parametrize(("is_known", "ahead"), [(True, 2), (False, None)], ids=["no default class", "unknown"])
async def test_how_many_are_ahead_in_the_queue_is_unknown_where_the_default_priority_is(
    make_spawner: MakeSpawner, server: WatchServer, is_known: bool, ahead: int | None
):
    kueue.serve(server, gpus=4, used=4, waiting=(10, 0))
    server.put(PRIORITY_CLASSES, {"metadata": {"name": "high", "uid": "high"}, "value": 1000})
    server.status |= {} if is_known else {PRIORITY_CLASSES: 403}
    found = await predict(make_spawner(settings=QUEUED), {"gpu": "a100", "gpu_count": 2})
    assert (found.outcome, found.ahead) == (Outcome.WAITS, ahead)


async def test_presets_that_are_queued_are_judged_by_the_queue(make_spawner: MakeSpawner, server: WatchServer):
    kueue.serve(server, gpus=2, used=1, waiting=())
    spawner = make_spawner(settings={**QUEUED, "presets": PRESETS})
    assert await outcomes(spawner, None) == {"small": Outcome.NOW, "one": Outcome.NOW, "all": Outcome.NEVER}


@pytest.mark.parametrize(("is_own", "outcome"), [(False, Outcome.NEVER), (True, Outcome.UNKNOWN)])
async def test_a_queue_that_may_come_with_the_users_namespace_is_not_called_missing(
    make_spawner: MakeSpawner, server: WatchServer, is_own: bool, outcome: Outcome
):
    kueue.serve(server, gpus=4)
    server.bodies[kueue.LOCAL_QUEUES] = kueue.listed()
    spawner = make_spawner(settings=QUEUED)
    spawner.enable_user_namespaces = is_own
    found = await predict(spawner, {"gpu": "a100", "gpu_count": 1})
    assert found.outcome is outcome


async def test_a_pod_that_another_gate_holds_back_is_not_for_the_queue_alone_to_judge(
    make_spawner: MakeSpawner, server: WatchServer
):
    kueue.serve(server, gpus=0)
    gates = {"extra_pod_config": {"schedulingGates": [{"name": "example.com/approval"}]}}
    found = await predict(make_spawner(settings=QUEUED, kubespawner=gates), {"gpu": "a100", "gpu_count": 1})
    assert found.outcome is Outcome.UNKNOWN


async def test_a_form_asks_kueue_once_for_all_its_choices(make_spawner: MakeSpawner, server: WatchServer):
    kueue.serve(server, gpus=4, used=4, waiting=(0,))
    spawner = make_spawner(settings={**QUEUED, "presets": PRESETS})
    for _ in range(2):
        await live(spawner, {"gpu": "a100", "gpu_count": 1})
    asked = [each.path for each in server.requests if "kueue" in each.path]
    assert sorted(asked) == sorted([kueue.LOCAL_QUEUES, kueue.CLUSTER_QUEUES, kueue.FLAVORS, kueue.WAITING])


async def test_a_form_does_not_wait_for_a_kueue_that_does_not_answer(make_spawner: MakeSpawner, server: WatchServer):
    kueue.serve(server, gpus=0)
    server.held.add(kueue.CLUSTER_QUEUES)
    spawner = make_spawner(settings=QUEUED, capacity_timeout=0.3)
    began_at = asyncio.get_running_loop().time()
    found = await predict(spawner, {"gpu": "a100", "gpu_count": 1})
    took_s = asyncio.get_running_loop().time() - began_at
    assert (found.outcome, took_s < 2) == (Outcome.UNKNOWN, True)


CLASSES = [
    {"metadata": {"name": "site"}, "value": 0},
    {"metadata": {"name": "shy"}, "value": 0, "preemptionPolicy": "Never"},
]


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        pytest.param(None, CLASSES, (Outcome.NOW, 4), id="no-class"),
        pytest.param("site", CLASSES, (Outcome.NOW, 4), id="a-class"),
        pytest.param("shy", CLASSES, (Outcome.WAITS, 0), id="preempts-no-pod"),
        pytest.param("site", None, (Outcome.UNKNOWN, 0), id="a-class-that-cannot-be-read"),
    ],
)
async def test_what_placeholders_hold_is_free(
    make_spawner: MakeSpawner,
    server: WatchServer,
    name: str | None,
    known: list[dict[str, Any]] | None,
    expected: tuple[Outcome, int],
):
    if known is None:
        server.status[PRIORITY_CLASSES] = 403
    else:
        server.put(PRIORITY_CLASSES, *known)
    placeholder = pod("placeholder", on="gpu-1", gpus=4)
    placeholder["spec"]["priority"] = -10
    server.put(PODS, placeholder)
    spawner = make_spawner(kubespawner={"priority_class_name": name} if name else {})
    found = await live(spawner, {"gpu": "a100", "gpu_count": 2, "cpu": 1, "memory": "1G"})
    assert found.verdict is not None
    assert found.availabilities is not None
    assert (found.verdict.outcome, found.availabilities[0].free) == expected


TAINTED = {**GPU_NODE, "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}}
TOLERANT = {"scheduling": {"tolerations": [{"key": "team", "operator": "Exists"}]}}


@pytest.mark.parametrize(
    ("there", "added", "expected"),
    [
        pytest.param(GPU_NODE, {}, Outcome.NOW, id="nothing"),
        pytest.param(TAINTED, {}, Outcome.NEVER, id="a-taint"),
        pytest.param(TAINTED, TOLERANT, Outcome.NOW, id="a-taint-and-its-toleration"),
        pytest.param(TAINTED, None, Outcome.UNKNOWN, id="a-taint-and-a-class-that-cannot-be-read"),
        pytest.param(GPU_NODE, {"scheduling": {"nodeSelector": {"pool": "nowhere"}}}, Outcome.NEVER, id="a-selector"),
        pytest.param(GPU_NODE, {"overhead": {"podFixed": {"cpu": "15500m"}}}, Outcome.NEVER, id="overhead"),
        pytest.param(GPU_NODE, None, Outcome.UNKNOWN, id="a-class-that-cannot-be-read"),
    ],
)
async def test_a_server_has_what_its_runtime_class_adds(
    make_spawner: MakeSpawner, server: WatchServer, there: Any, added: dict[str, Any] | None, expected: Outcome
):
    server.delete(NODES, CPU_NODE)
    server.put(NODES, there)
    if added is None:
        server.status[RUNTIME_CLASSES] = 403
    else:
        server.put(RUNTIME_CLASSES, {**NVIDIA_CLASS, **added})
    spawner = make_spawner(settings=CLOSED)
    found = await predict(spawner, {"gpu": "a100", "gpu_count": 2, "cpu": 2, "memory": "1G"})
    assert found.outcome is expected


async def test_a_sidecar_has_the_requests_of_a_limit_range(make_spawner: MakeSpawner, server: WatchServer):
    limits = [{"type": "Container", "defaultRequest": {"memory": "99Gi"}}]
    server.delete(NODES, CPU_NODE)
    sidecar = {"extra_containers": [{"name": "sidecar", "image": "sidecar"}]}
    spawner = make_spawner(settings=CLOSED, kubespawner=sidecar)
    ranges = f"/api/v1/namespaces/{spawner.namespace}/limitranges"
    server.put(ranges, {"metadata": {"name": "defaults"}, "spec": {"limits": limits}})
    found = await predict(spawner, {"gpu": "a100", "gpu_count": 2, "cpu": 2, "memory": "1G"})
    assert found.outcome is Outcome.NEVER
