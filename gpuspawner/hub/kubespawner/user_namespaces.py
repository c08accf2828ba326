"""Which pods are of this hub's servers, where users have namespaces of their own: KubeSpawner watches all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from kubespawner import KubeSpawner
from typing_extensions import override

from gpuspawner.core.policy.server_pods import read_pod_owner
from gpuspawner.core.rawjson import as_dict, as_text

_ANY_NUMBER = "\0"
"""Where a namespace has the number of a user, which no pod notes; no namespace has this character."""


class _UserId:
    """The number of a user that is not known."""

    @override
    def __format__(self, spec: str) -> str:
        return _ANY_NUMBER

    @override
    def __repr__(self) -> str:
        return _ANY_NUMBER


def make_own_pod_check(spawner: Any) -> Callable[[Mapping[str, Any]], bool]:
    """Return what tells whether a pod is in the namespace that this hub gives the user whose name it notes.

    A pattern for all users would not do: ``jhub-…`` is the namespace of any user of a hub in ``jhub``, and of any user
    of a hub in ``jhub-dev``. What is returned costs as much as to read a pod, so ask once for each.

    :param spawner: anybody's.
    """
    stand_in = cache(lambda: _make_stand_in(spawner))

    def is_own(raw: Mapping[str, Any]) -> bool:
        owner, server = read_pod_owner(raw)
        if not owner:
            return False
        user = stand_in()
        user.user.name, user.name = owner, server
        expected = KubeSpawner._expand_user_properties(user, spawner.user_namespace_template)
        found = as_text(as_dict(raw.get("metadata")).get("namespace"))
        if _ANY_NUMBER not in expected:
            return bool(expected == found)
        return re.fullmatch("[0-9]+".join(map(re.escape, expected.split(_ANY_NUMBER))), found) is not None

    return is_own


def _make_stand_in(spawner: Any) -> SimpleNamespace:
    """Return what KubeSpawner names a namespace by: all that it reads of a spawner then, without a user's names."""
    hub = spawner._namespace_default()  # reads a file
    return SimpleNamespace(
        user=SimpleNamespace(id=_UserId()),
        slug_scheme=spawner.slug_scheme,
        # The one that a user's takes the place of: a template may be made with it.
        namespace=spawner._find_my_config(spawner.config).get("namespace", hub),
        _namespace_default=lambda: hub,
    )
