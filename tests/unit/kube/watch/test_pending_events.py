"""A handful of events: the last state of each object, and the version to go on from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch import pending_events as module
from gpuspawner.kube.watch.object_caches import PodCache
from gpuspawner.kube.watch.pending_events import PendingEvents, RelistError

MANAGERS = [
    {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {'k:{"key":"]},\\"spec\\":{"}': {}}}, "f:spec": {"f:nodeName": {}}},
        "subresource": "status",
    }
]


def line(kind: str, raw: Any) -> bytes:
    """Return an event as the API server writes it: compact, metadata before spec and status."""
    return json.dumps({"type": kind, "object": raw}, separators=(",", ":")).encode()


def pod(name: str, *, version: int, gpus: int = 1, on: str = "n1", **metadata: Any) -> dict[str, Any]:
    requests = {"requests": {"nvidia.com/gpu": str(gpus)}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
            "managedFields": MANAGERS,
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": requests}]},
        "status": {"phase": "Running"},
    }


def mark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}})


async def state_of(*lines: bytes, at_once: bool = True) -> tuple[dict[tuple[str, str], int], str]:
    """Return how many GPUs each pod holds after some events, and the version."""
    occupancy = Occupancy()
    changes = PendingEvents(PodCache(occupancy))
    for each in lines:
        changes.add_line(each)
        if not at_once:
            await changes.apply(Pacer())
    await changes.apply(Pacer())
    held = {(each.namespace, each.name): each.requests.get("nvidia.com/gpu", 0) for each in occupancy.iter_pods()}
    return held, changes.version


async def test_the_last_state_of_each_object_counts():
    lines = [
        line("ADDED", pod("a", version=1)),
        line("ADDED", pod("b", version=2)),
        line("MODIFIED", pod("a", version=3, gpus=2)),
        line("DELETED", pod("b", version=4)),
        line("ADDED", pod("c", version=5, gpus=4)),
    ]
    assert await state_of(*lines) == ({("ns", "a"): 2, ("ns", "c"): 4}, "5")


async def test_states_in_between_are_not_read(monkeypatch: pytest.MonkeyPatch):
    read = []
    monkeypatch.setattr(module, "decode_object", lambda raw, target: read.append(raw["metadata"]["resourceVersion"]))
    await state_of(*(line("MODIFIED", pod("a", version=version)) for version in (1, 2, 3)))
    assert read == ["3"]


async def test_the_version_is_that_of_what_came_last():
    first, second = line("ADDED", pod("a", version=5)), line("ADDED", pod("b", version=6))
    assert (await state_of(first, second))[1] == "6"
    assert (await state_of(first, second, line("MODIFIED", pod("a", version=7))))[1] == "7"
    assert (await state_of(first, mark(9)))[1] == "9"
    assert (await state_of(mark(4), first))[1] == "5"
    assert await state_of() == ({}, "")


async def test_an_event_that_is_written_in_another_way_is_read_all_the_same():
    raw = pod("a", version=1, generateName="A_")
    sorted_keys = json.dumps({"object": raw, "type": "ADDED"}, sort_keys=True).encode()
    spaced = json.dumps({"type": "MODIFIED", "object": {**raw, "spec": pod("a", version=1, gpus=3)["spec"]}}).encode()
    assert (await state_of(sorted_keys))[0] == {("ns", "a"): 1}
    assert (await state_of(sorted_keys, spaced))[0] == {("ns", "a"): 3}


@pytest.mark.parametrize(
    "broken",
    [b"[1", line("ERROR", {"kind": "Status", "code": 410}), line("ADDED", {})[:-3], b"\xff\xfe"],
    ids=["no JSON", "410 Gone", "cut off", "no text"],
)
async def test_an_answer_that_is_no_watch_asks_for_a_new_list(broken: bytes):
    with pytest.raises(RelistError):
        await state_of(line("ADDED", pod("a", version=1)), broken)


async def test_a_change_that_is_no_json_asks_for_a_new_list():
    whole = line("MODIFIED", pod("a", version=1))
    with pytest.raises(RelistError):
        await state_of(whole[:-10])


async def test_managed_fields_are_left_out_and_nothing_else():
    raw = pod("a", version=1, annotations={"x": ',"managedFields":[', "y": ']},"spec":{'}, labels={"l": "v"})
    seen: list[Any] = []

    class Target(PodCache):
        def decode(self, raw: Any) -> None:
            seen.append(raw)

    changes = PendingEvents(Target(Occupancy()))
    changes.add_line(line("ADDED", raw))
    await changes.apply(Pacer())
    assert seen == [{**raw, "metadata": {name: each for name, each in raw["metadata"].items() if each is not MANAGERS}}]


CHANGE = st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.sampled_from("abc"), st.integers(0, 8))


@given(st.lists(CHANGE, max_size=12))
async def test_all_at_once_comes_to_the_same_as_one_by_one(drawn: list[tuple[str, str, int]]):
    lines = [
        line(kind, pod(name, version=version, gpus=gpus)) for version, (kind, name, gpus) in enumerate(drawn, start=1)
    ]
    assert await state_of(*lines) == await state_of(*lines, at_once=False)
