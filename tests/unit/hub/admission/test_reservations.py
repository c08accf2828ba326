"""Which servers there are, for a hub's process in which spawns begin, fail, are given up and are seen late."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.policy_model import ANY, GPUPool, Policy
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.policy.usage import ServerUsage, read_server_pod
from gpuspawner.hub.admission.reservations import OWNERS_CACHE_S, UNSEEN_POD_S, Reservations
from tests.unit.clocks import Clock

T4 = {"nvidia.com/gpu.product": "T4"}
GPUS = {
    slug: GPUType(
        slug=slug,
        display_name=slug,
        resource="nvidia.com/gpu",
        vendor="nvidia",
        match={"nvidia.com/gpu.product": (slug.upper(),)},
    )
    for slug in ("a100", "t4")
}
PHYSICS = GPUPool(
    slug="physics", display_name="Physics", groups=frozenset({"physics"}), gpus=frozenset({ANY}), max_gpus=4
)
CATALOG = Catalog(images={}, cpu=None, memory=None, gpus=GPUS, policy=Policy(pools={"physics": PHYSICS}))
TWO = ServerUsage(owner="ada", name="", gpu="a100", count=2)


class Hub:
    """A ledger, the pods that KubeSpawner sees, and a clock."""

    def __init__(self, clock: Clock) -> None:
        loaded = asyncio.get_running_loop().create_future()
        loaded.set_result(None)
        self.pods: dict[str, dict[str, Any]] = {}
        self.reflector = SimpleNamespace(first_load_future=loaded, pods=self.pods)
        self.clock = clock
        self.warned: list[object] = []
        self.ledger = Reservations(clock=clock)
        self.groups: Mapping[str, frozenset[str]] | None = {}
        self.asked_for: list[set[str]] = []
        self.users: dict[int, Any] = {}
        self._kind = type("Spawner", (SimpleNamespace,), {"reflectors": {("pods", "hub"): self.reflector}})

    def spawner(self, owner: str = "ada", name: str = "", *, is_pending: bool = True) -> Any:
        return self._kind(
            user=SimpleNamespace(name=owner, settings={"users": self.users}),
            log=SimpleNamespace(warning=lambda *text: self.warned.append(text)),
            name=name,
            pod_reflector=self.reflector,
            _spawn_pending=is_pending,
            _start_pending=False,
            _spawn_future=None,
            _start_future=None,
            has_open_start=False,
        )

    def put(
        self, owner: str = "ada", name: str = "", *, uid: str = "u1", gpus: int = 1, version: str = "1", **notes: str
    ) -> None:
        annotations = {"hub.jupyter.org/username": owner, "hub.jupyter.org/servername": name}
        notes = {"gpu": "a100", "pools": "", **notes}
        annotations |= {f"gpuspawner.jupyter.org/{key}": value for key, value in notes.items() if value != "-"}
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        self.pods[f"hub/{owner}-{name}"] = {
            "metadata": {"uid": uid, "resourceVersion": version, "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
            "status": {"phase": "Running"},
        }

    def servers(self, *, inventory: Inventory | None = None) -> list[tuple[str, str, str | None, int]] | None:
        found = self.read(inventory=inventory)
        return None if found is None else [(each.owner, each.name, each.gpu, each.count) for each in found]

    def read(self, *, inventory: Inventory | None = None, catalog: Catalog = CATALOG) -> tuple[ServerUsage, ...] | None:
        def groups_of(names: set[str]) -> Mapping[str, frozenset[str]] | None:
            self.asked_for.append(names)
            return self.groups

        return self.ledger.list_servers(
            self.spawner("viewer"), catalog, inventory=inventory or Inventory(), read_groups=groups_of
        )


@pytest.fixture
async def hub(clock: Clock) -> Hub:
    return Hub(clock)


# -- servers that exist ----------------------------------------------------------------------------------------------


async def test_servers_are_those_whose_pods_exist(hub: Hub):
    hub.put(gpus=2)
    hub.put("bob", "two", gpus=1, gpu="t4")
    assert hub.servers() == [("ada", "", "a100", 2), ("bob", "two", "t4", 1)]


async def test_pods_that_are_not_read_yet_are_unknown(hub: Hub):
    hub.reflector.first_load_future = asyncio.get_running_loop().create_future()
    assert hub.servers() is None


async def test_a_pod_that_changes_or_goes_is_read_anew(hub: Hub):
    hub.put(gpus=1)
    assert hub.servers() == [("ada", "", "a100", 1)]
    hub.put(gpus=3, version="2")
    assert hub.servers() == [("ada", "", "a100", 3)]
    hub.pods.clear()
    assert hub.servers() == []


async def test_a_pod_of_another_spawner_is_recognized_by_its_node_and_its_owners_groups(hub: Hub):
    hub.groups = {"ada": frozenset({"physics"})}
    hub.put(gpu="-", pools="-")
    hub.put("bob", gpus=0, gpu="-", pools="-")
    inventory = Inventory(nodes=(Node(name="n1", labels=T4),))
    assert hub.read(inventory=inventory) == (
        ServerUsage(owner="ada", name="", gpu="t4", count=1, pools=("physics",)),
        ServerUsage(owner="bob", name=""),
    )
    hub.read(inventory=inventory)
    assert hub.asked_for == [{"ada"}]


async def test_while_groups_cannot_be_read_such_a_pod_counts_towards_every_pool(hub: Hub):
    hub.put(gpu="-", pools="-")
    hub.groups = None
    assert [each.pools for each in hub.read() or ()] == [("physics",)]
    hub.groups = {"ada": frozenset()}
    assert [each.pools for each in hub.read() or ()] == [()]


async def test_facts_of_a_pod_are_not_computed_again_for_an_equal_catalog(hub: Hub):
    hub.put(pools="-")
    hub.read()
    hub.read(catalog=replace(CATALOG, gpus={slug: replace(gpu, max_count=2) for slug, gpu in GPUS.items()}))
    assert hub.asked_for == [{"ada"}]
    hub.read(catalog=replace(CATALOG, gpus={}))
    assert hub.asked_for == [{"ada"}, {"ada"}]


async def test_a_pod_on_a_node_that_is_not_read_yet_is_recognized_when_it_is(hub: Hub):
    hub.put(gpu="-")
    assert hub.servers() == [("ada", "", "", 1)]
    assert hub.servers(inventory=Inventory(nodes=(Node(name="n1", labels=T4),))) == [("ada", "", "t4", 1)]


async def test_a_pod_that_cannot_be_understood_is_left_out_and_logged_once(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    hub.put("bob")
    hub.put("eve")

    def read(raw: Any, **more: Any) -> Any:
        if "eve" in str(raw):
            raise ValueError("strange")
        return read_server_pod(raw, **more)

    monkeypatch.setattr("gpuspawner.hub.admission.reservations.read_server_pod", read)
    for version in "12":
        hub.put("eve", version=version)
        assert hub.servers() == [("bob", "", "a100", 1)]
    assert len(hub.warned) == 1


async def test_a_pod_belongs_to_whom_the_hub_knows_as_its_owner(hub: Hub):
    hub.put("eve", "other")
    spawner = SimpleNamespace(name="", namespace="hub", pod_name="eve-other", active=True)
    hub.users[1] = SimpleNamespace(name="ada", spawners={"": spawner})
    assert hub.servers() == [("ada", "", "a100", 1)]
    hub.users[1].name = "lovelace"
    hub.clock.now += OWNERS_CACHE_S + 0.1
    assert hub.servers() == [("lovelace", "", "a100", 1)]


# -- servers that are being started ----------------------------------------------------------------------------------


async def test_a_start_counts_at_once_and_once(hub: Hub):
    spawner = hub.spawner()
    hub.ledger.reserve(spawner, TWO)
    hub.ledger.reserve(spawner, TWO)
    assert hub.servers() == [("ada", "", "a100", 2)]


@pytest.mark.parametrize("flag", ["_spawn_pending", "_start_pending", "_start_future"])
async def test_a_start_counts_as_long_as_jupyterhub_works_on_it(hub: Hub, flag: str):
    spawner = hub.spawner(is_pending=False)
    future = asyncio.get_running_loop().create_future()
    setattr(spawner, flag, future if flag == "_start_future" else True)
    hub.ledger.reserve(spawner, TWO)
    assert hub.servers() == [("ada", "", "a100", 2)]
    future.cancel()
    setattr(spawner, flag, future if flag == "_start_future" else False)
    assert hub.servers() == []


async def test_a_start_and_its_pod_count_once(hub: Hub):
    hub.ledger.reserve(hub.spawner(), TWO)
    hub.put(gpus=2)
    assert hub.servers() == [("ada", "", "a100", 2)]


@pytest.mark.parametrize(("gpus", "count"), [(1, 2), (4, 4)])
async def test_of_a_pod_from_before_and_a_start_the_larger_counts(hub: Hub, gpus: int, count: int):
    hub.put(gpus=gpus)
    hub.ledger.reserve(hub.spawner(), TWO)
    assert hub.servers() == [("ada", "", "a100", count)]


async def test_a_pod_from_before_and_a_start_count_towards_the_pools_of_both(hub: Hub):
    hub.put(gpus=4, pools="old")
    hub.ledger.reserve(hub.spawner(), replace(TWO, pools=("physics",)))
    assert hub.read() == (replace(TWO, count=4, pools=("old", "physics")),)


async def test_a_pod_from_before_of_another_type_counts_besides_the_start(hub: Hub):
    hub.put(gpu="t4")
    hub.ledger.reserve(hub.spawner(), TWO)
    assert hub.servers() == [("ada", "", "t4", 1), ("ada", "", "a100", 2)]


@pytest.mark.parametrize(("first", "second", "count"), [(2, 1, 2), (1, 2, 2)])
async def test_of_two_starts_of_one_server_the_larger_counts(hub: Hub, first: int, second: int, count: int):
    """JupyterHub has two spawners of a server while an earlier start still ends."""
    ending = hub.spawner()
    hub.ledger.reserve(ending, replace(TWO, count=first))
    hub.ledger.reserve(hub.spawner(), replace(TWO, count=second))
    assert hub.servers() == [("ada", "", "a100", count)]
    ending._spawn_pending = False
    assert hub.servers() == [("ada", "", "a100", second)]


async def test_a_start_counts_until_it_ends_although_a_later_one_of_the_server_has_ended(hub: Hub):
    first, second = hub.spawner(), hub.spawner()
    hub.ledger.reserve(first, TWO)
    hub.ledger.reserve(second, replace(TWO, count=1))
    second._spawn_pending = False
    assert hub.servers() == [("ada", "", "a100", 2)]
    first._spawn_pending = False
    assert hub.servers() == []


async def test_two_starts_of_one_server_with_different_types_both_count(hub: Hub):
    hub.ledger.reserve(hub.spawner(), TWO)
    hub.ledger.reserve(hub.spawner(), replace(TWO, gpu="t4"))
    assert hub.servers() == [("ada", "", "a100", 2), ("ada", "", "t4", 2)]


async def test_a_cancelled_start_counts_until_jupyterhub_has_stopped_the_server(hub: Hub):
    spawner = hub.spawner()
    hub.ledger.reserve(spawner, TWO)
    spawner._spawn_pending, spawner.has_open_start = False, True
    assert hub.servers() == [("ada", "", "a100", 2)]
    spawner.has_open_start = False
    assert hub.servers() == []


async def test_the_next_start_of_a_spawner_counts_when_the_earlier_start_is_closed(hub: Hub):
    spawner = hub.spawner()
    spawner._spawn_future, spawner.has_open_start = object(), True
    hub.ledger.reserve(spawner, replace(TWO, gpu="t4"))
    spawner._spawn_future = object()
    hub.ledger.reserve(spawner, TWO)
    assert hub.servers() == [("ada", "", "t4", 2), ("ada", "", "a100", 2)]
    spawner.has_open_start = False
    assert hub.servers() == [("ada", "", "a100", 2)]


async def test_the_pod_of_one_start_ends_no_reservation_of_another(hub: Hub):
    first, second = hub.spawner(), hub.spawner()
    hub.ledger.reserve(first, TWO)
    hub.ledger.reserve(second, replace(TWO, count=1))
    with hub.ledger.track_creation(second):
        pass
    give_up(hub, second)
    assert hub.servers() == [("ada", "", "a100", 2)]


# -- pods that are seen late -----------------------------------------------------------------------------------------


def create(hub: Hub) -> Any:
    """Return a spawner whose start has asked for its pod."""
    spawner = hub.spawner()
    hub.ledger.reserve(spawner, TWO)
    with hub.ledger.track_creation(spawner):
        pass
    return spawner


def give_up(hub: Hub, spawner: Any) -> None:
    spawner._spawn_pending = False
    hub.ledger.release_seen(spawner)


async def test_a_pod_that_was_asked_for_counts_until_it_is_seen(hub: Hub):
    give_up(hub, create(hub))
    assert hub.servers() == [("ada", "", "a100", 2)]
    hub.put(gpus=2)
    assert hub.servers() == [("ada", "", "a100", 2)]
    hub.pods.clear()
    assert hub.servers() == []


async def test_the_pod_of_the_start_before_is_not_taken_for_it(hub: Hub):
    hub.put(gpus=1, uid="old")
    hub.read()
    give_up(hub, create(hub))
    hub.pods.clear()
    assert hub.servers() == [("ada", "", "a100", 2)]


async def test_a_pod_that_was_seen_and_is_gone_when_a_start_is_given_up_is_not_waited_for(hub: Hub):
    spawner = create(hub)
    hub.put(gpus=2)
    give_up(hub, spawner)
    hub.pods.clear()
    assert hub.servers() == []


async def test_a_pod_that_is_never_seen_is_waited_for_a_while(hub: Hub):
    give_up(hub, create(hub))
    hub.clock.now += UNSEEN_POD_S - 1
    assert hub.servers() == [("ada", "", "a100", 2)]
    hub.clock.now += 1.1
    assert hub.servers() == []


async def test_a_pod_that_the_api_server_refused_is_not_waited_for(hub: Hub):
    spawner = hub.spawner()
    hub.ledger.reserve(spawner, TWO)
    with pytest.raises(ApiException), hub.ledger.track_creation(spawner):
        raise ApiException(status=403)
    give_up(hub, spawner)
    assert hub.servers() == []


@pytest.mark.parametrize("unclear", [TimeoutError(), ApiException(status=504), ApiException(reason="broken")])
async def test_a_request_without_an_answer_may_have_made_a_pod_whatever_comes_after(hub: Hub, unclear: Exception):
    spawner = hub.spawner()
    hub.ledger.reserve(spawner, TWO)
    for error in (unclear, ApiException(status=403)):
        with pytest.raises(type(error)), hub.ledger.track_creation(spawner):
            raise error
    give_up(hub, spawner)
    assert hub.servers() == [("ada", "", "a100", 2)]


async def test_without_a_policy_nothing_is_written_down(hub: Hub):
    with hub.ledger.track_creation(hub.spawner()):
        pass
    hub.ledger.release_seen(hub.spawner())
    assert hub.servers() == []


def test_starts_of_another_event_loop_are_forgotten(clock: Clock):
    async def begin() -> Hub:
        hub = Hub(clock)
        hub.ledger.reserve(hub.spawner(), TWO)
        assert hub.servers() == [("ada", "", "a100", 2)]
        return hub

    async def servers(hub: Hub) -> Any:
        return hub.servers()

    assert asyncio.run(servers(asyncio.run(begin()))) == []
