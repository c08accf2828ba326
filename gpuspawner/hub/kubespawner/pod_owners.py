"""Whose the pods of servers are, as the hub knows it: what is written on a pod keeps a name that its user had once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ServerKey = tuple[str, str]
"""Names of a user and of their server; the latter is empty for the default one."""


def read_pod_owners(spawner: Any) -> Mapping[str, ServerKey]:
    """Return who owns the pods of all spawners that this hub has, by namespace and name of the pod.

    :param spawner: anybody's; JupyterHub gives all of them the same settings, with its users among them.
    """
    users = getattr(spawner.user, "settings", {}).get("users") or {}
    found: dict[str, ServerKey] = {}
    active: set[str] = set()
    # A hub's users are a dict that asks the database when it is asked for a name; its values are what is loaded.
    for user in tuple(dict.values(users)):
        for each in tuple(user.spawners.values()):
            namespace, pod = getattr(each, "namespace", ""), getattr(each, "pod_name", "")
            key = f"{namespace}/{pod}"
            # Two may have the same name of a pod, after one user took the former name of another.
            if pod and key not in active:
                found[key] = (user.name, each.name)
                if each.active:
                    active.add(key)
    return found
