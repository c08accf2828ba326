"""Servers of other hubs are not mistaken for this hub's own, whatever namespaces are called."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.hub.admission.reservations import Reservations
from gpuspawner.hub.kubespawner.hub_pods import make_own_pod_check
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner


@pytest.fixture
def make(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch) -> MakeSpawner:
    def in_namespace(hub: str, *, name: str = "ada", named: str = "", **kubespawner: Any) -> GPUSpawner:
        # As if the file that a pod has of its namespace were there.
        monkeypatch.setattr(GPUSpawner, "_namespace_default", lambda _: hub)
        stored = SimpleNamespace(name=named, server=None, user_options=None) if named else None
        traits = {"enable_user_namespaces": True, **kubespawner}
        return make_spawner(name=name, kubespawner=traits, orm_spawner=stored)

    return in_namespace


def pod(spawner: GPUSpawner, *, version: str = "1") -> dict[str, Any]:
    names = {"name": spawner.pod_name, "namespace": spawner.namespace, "resourceVersion": version}
    return {"metadata": {**names, "annotations": spawner._build_common_annotations({})}}


NAMES = ("ada", "Ada.Lovelace@example.org", "-x-", "1", "ünï", "a" * 80, "dev-ada", "{userid}")


@pytest.mark.parametrize(
    "template",
    [
        "{hubnamespace}-{username}",
        "{hubnamespace}-{username}-{servername}",
        "{username}-{servername}",
        "u-{user_server}",
        "{hubnamespace}",
        "fixed",
        "{hubnamespace!s:.4}-{safe_username}",
        "{hubnamespace}-{userid}-{username}",
        "{userid:04d}-x",
        "{namespace}-{escaped_username}-",
        "{pod_name}",
    ],
)
@pytest.mark.parametrize("scheme", ["safe", "escape"])
async def test_pods_of_all_users_of_the_hub_are_its_own(make: MakeSpawner, template: str, scheme: str):
    traits: dict[str, Any] = {"user_namespace_template": template, "slug_scheme": scheme, "namespace": "people"}
    is_own = make_own_pod_check(make("jhub", **traits))
    pods = [pod(make("jhub", name=name, named=named, **traits)) for name in NAMES for named in ("", "two", "Gr0ß & co")]
    assert [each["metadata"] for each in pods if not is_own(each)] == []


@pytest.mark.parametrize(("hub", "other"), [("jhub", "jhub-dev"), ("jhub-dev", "jhub"), ("jhub", "jhub2")])
@pytest.mark.parametrize("name", ["ada", "dev-ada", "dev"])
async def test_pods_of_another_hub_are_not(make: MakeSpawner, hub: str, other: str, name: str):
    foreign = pod(make(other, name=name))
    assert not make_own_pod_check(make(hub))(foreign)


async def test_the_number_of_a_user_is_a_number(make: MakeSpawner):
    template = "{hubnamespace}-{userid}"
    foreign = pod(make("jhub-dev", user_namespace_template=template))
    assert not make_own_pod_check(make("jhub", user_namespace_template=template))(foreign)


@pytest.mark.parametrize(
    "metadata", [None, {}, {"annotations": None}, {"annotations": {"hub.jupyter.org/username": 1}}]
)
async def test_a_pod_without_a_user_has_no_owner(make: MakeSpawner, metadata: object):
    assert not make_own_pod_check(make("jhub"))({"metadata": metadata})


async def test_limits_count_no_servers_of_another_hub_and_ask_once_for_each_pod(make: MakeSpawner):
    theirs, moved, own = make("jhub-dev"), make("jhub", name="mia"), make("jhub")
    moved.namespace = "before"
    own.user.settings["users"] = {1: SimpleNamespace(name="mia", spawners={"": moved})}
    pods = {f"{each.namespace}/{each.pod_name}": pod(each) for each in (theirs, moved, own)}
    loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    loaded.set_result(None)
    type(own).reflectors["pods", None] = SimpleNamespace(pods=pods, first_load_future=loaded)
    ledger, catalog = Reservations(), Catalog(images={}, cpu=None, memory=None)

    def counted() -> list[str]:
        servers = ledger.list_servers(own, catalog, inventory=Inventory(), read_groups=lambda _: {})
        return [each.owner for each in servers or ()]

    try:
        assert counted() == ["mia", "ada"]
        own.user_namespace_template = "changed-{username}"
        assert counted() == ["mia", "ada"]
        pods[f"{own.namespace}/{own.pod_name}"] = pod(own, version="2")
        assert counted() == ["mia"]
    finally:
        type(own).reflectors.clear()
