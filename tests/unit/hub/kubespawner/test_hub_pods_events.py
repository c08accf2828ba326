from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubespawner import KubeSpawner
from kubespawner.spawner import EventReflector

from gpuspawner.hub.kubespawner.hub_pods import PodEventIndex, select_pod_events
from tests.unit.clocks import Clock, uptimes
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.followed import Reflector

TIMES = ("2026-11-22T10:00:00Z", "2026-11-22T10:00:01Z", "2026-11-22T10:00:02Z")


def event(uid: str, pod: str = "jupyter-ada", *, second: int = 0, is_new: bool = False) -> dict[str, Any]:
    """Return an event; new ones have their time with fractions, under another name."""
    time = TIMES[second]
    return {
        "metadata": {"uid": uid},
        "involvedObject": {"name": pod},
        "lastTimestamp": None if is_new else time,
        "eventTime": time if is_new else None,
    }


def uids(events: list[Any]) -> list[str]:
    return [each["metadata"]["uid"] for each in events]


@given(
    drawn=st.lists(st.tuples(st.sampled_from(["jupyter-ada", "jupyter-bob"]), st.integers(0, 2), st.booleans())),
    after=st.none() | st.integers(0, 9).map(str),
)
def test_kubespawner_says_the_same(drawn: list[tuple[str, int, bool]], after: str | None):
    events = [event(str(n), pod, second=second, is_new=new) for n, (pod, second, new) in enumerate(drawn)]
    reflector = SimpleNamespace(resources={each["metadata"]["uid"]: each for each in events})
    reflector.events = EventReflector.events.fget(reflector)
    spawner = SimpleNamespace(event_reflector=reflector, pod_name="jupyter-ada", _last_event=after)
    assert select_pod_events(events, "jupyter-ada", after=after) == KubeSpawner.events.fget(spawner)


ODD = st.sampled_from([None, "", "x", 3, [], {}, {"name": None}, {"name": ["jupyter-ada"]}, {"uid": 7}])


@given(odd=st.lists(st.dictionaries(st.sampled_from(sorted(event("x"))), ODD), max_size=4))
def test_odd_events_of_other_pods_hide_no_event_of_a_pod(odd: list[dict[str, Any]]):
    events = [*odd, event("b", second=1), event("a")]
    reflector = Reflector(resources=dict(enumerate(events)))
    listed = PodEventIndex(clock=Clock(0.0)).list_events(reflector, "jupyter-ada")
    assert (uids(select_pod_events(events, "jupyter-ada", after=None)), uids(listed)) == (["a", "b"], ["a", "b"])


@pytest.mark.parametrize(
    "times", [{}, {"lastTimestamp": None}, {"eventTime": None}, dict.fromkeys(["lastTimestamp", "eventTime"])]
)
def test_an_event_without_a_time_comes_first(times: dict[str, None]):
    timeless = {"metadata": {"uid": "a"}, "involvedObject": {"name": "jupyter-ada"}, **times}
    assert uids(select_pod_events([event("b"), timeless], "jupyter-ada", after=None)) == ["a", "b"]


async def test_a_spawner_knows_its_pods_events(make_spawner: MakeSpawner):
    spawner = make_spawner()
    assert spawner.events == []
    resources = {"a": event("a", spawner.pod_name), "b": event("b", "jupyter-bob")}
    spawner.reflectors[spawner._get_reflector_key("events")] = Reflector(resources=resources)
    try:
        assert uids(spawner.events) == ["a"]
    finally:
        spawner.reflectors.clear()


@given(uptime_s=uptimes)
def test_events_are_sorted_by_pod_once_a_second_whatever_the_uptime(uptime_s: float):
    clock = Clock(uptime_s)
    known = PodEventIndex(clock=clock)
    resources = {"b": event("b", second=1), "a": event("a"), "x": event("x", "jupyter-bob")}
    reflector = Reflector(resources=resources)
    assert uids(known.list_events(reflector, "jupyter-ada")) == ["a", "b"]
    resources["c"] = event("c", second=2)
    assert uids(known.list_events(reflector, "jupyter-ada")) == ["a", "b"]
    clock.now += 1.0
    assert uids(known.list_events(reflector, "jupyter-ada")) == ["a", "b", "c"]
    assert known.list_events(reflector, "jupyter-eve") == []


def test_each_watch_has_its_own():
    known = PodEventIndex()
    watches = [Reflector(resources={"a": event(uid)}) for uid in ("1", "2")]
    assert [uids(known.list_events(watch, "jupyter-ada")) for watch in watches] == [["1"], ["2"]]
