"""Whose pods are, for a hub whose users change their names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpuspawner.hub.kubespawner.hub_pods import read_pod_owners


def user(name: str, **pods: bool) -> Any:
    """Return a user with a server for each pod, active or not."""
    spawners = {
        pod: SimpleNamespace(name=pod, namespace="hub", pod_name=f"jupyter-{pod}", active=is_active)
        for pod, is_active in pods.items()
    }
    return SimpleNamespace(name=name, spawners=spawners)


def asked(*users: Any) -> Any:
    return SimpleNamespace(user=SimpleNamespace(settings={"users": dict(enumerate(users))}))


def test_pods_belong_to_the_user_of_their_spawner_by_the_name_of_today():
    ada, bob = user("ada", one=True, two=False), user("bob", three=True)
    ada.name = "lovelace"
    assert read_pod_owners(asked(ada, bob)) == {
        "hub/jupyter-one": ("lovelace", "one"),
        "hub/jupyter-two": ("lovelace", "two"),
        "hub/jupyter-three": ("bob", "three"),
    }


def test_of_two_spawners_of_a_pod_the_active_one_has_it():
    idle, active = user("ada", one=False), user("lovelace", one=True)
    for users in ((idle, active), (active, idle)):
        assert read_pod_owners(asked(*users)) == {"hub/jupyter-one": ("lovelace", "one")}


def test_spawners_of_another_kind_have_no_pods():
    ada = SimpleNamespace(name="ada", spawners={"": SimpleNamespace(name="", active=True)})
    assert read_pod_owners(asked(ada)) == {}


def test_without_a_hub_no_owner_is_known():
    assert read_pod_owners(SimpleNamespace(user=SimpleNamespace(name="ada"))) == {}
