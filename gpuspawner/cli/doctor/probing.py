"""Starts probe pods, waits for what they saw, and leaves none behind."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from gpuspawner.cli.cluster.cluster import Cluster
from gpuspawner.cli.doctor.asking import ANSWER_S
from gpuspawner.cli.doctor.leaks import UNSET, Sight, probe_pod, sights
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.kube.client.requests import APIUnavailableError, body_of, send

_ENDED = frozenset({"Succeeded", "Failed"})
_POLL_S = 0.5
_TRIES = 4
"""To remove a pod."""


async def probe(
    cluster: Cluster,
    nodes: Iterable[str],
    *,
    image: str,
    left: list[str],
    pull_policy: str = "",
    patience_s: float = 90.0,
) -> tuple[Sight, ...]:
    """Return what pods without a GPU see on some nodes.

    :param left: has the names of pods that are not removed, or may not be, also when this is cancelled, and again.
    :param patience_s: seconds that they may take, with pulling the image.
    """
    looks = [_Look(cluster, node) for node in nodes]
    # All of them until they are gone: whoever is interrupted twice waits for no answer.
    left += [look.name for look in looks]
    try:
        async with asyncio.timeout(patience_s):
            await asyncio.gather(*(look.run(image, pull_policy) for look in looks))
    except TimeoutError:
        pass  # what is known by then is told
    finally:
        # Also when this is cancelled (Ctrl-C): what was begun here ends here. Cancelled again, it ends at once.
        await asyncio.gather(*(_remove(look, left) for look in looks))
    return tuple(sight for look in looks for sight in look.told())


async def _remove(look: _Look, left: list[str]) -> None:
    if await look.remove():
        left.remove(look.name)


class _Look:
    """One probe pod."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node
        # Known before it is created: it is removed even if the answer to that never comes.
        self.name = f"gpuspawner-probe-{secrets.token_hex(4)}"
        self._pod: dict[str, object] = {}
        self._trouble = ""
        self._is_under_way = False
        """It was asked for, and nobody said yet that it is there: it may still come."""

    async def run(self, image: str, pull_policy: str) -> None:
        manifest = probe_pod(self._node, name=self.name, image=image, pull_policy=pull_policy)
        core: Any = self._cluster.core
        place = {"namespace": self._cluster.namespace, "_request_timeout": ANSWER_S}
        try:
            self._is_under_way = True
            await body_of(await send(core.create_namespaced_pod, body=manifest, **place))
            self._is_under_way = False
            while text(mapping(self._pod.get("status")).get("phase")) not in _ENDED:
                await asyncio.sleep(_POLL_S)
                answer = await body_of(await send(core.read_namespaced_pod, name=self.name, **place))
                self._pod = mapping(json.loads(answer))
        except (APIUnavailableError, ValueError) as error:
            self._trouble = str(error)
            if getattr(error, "status", None) is not None:
                self._is_under_way = False  # it was refused

    async def remove(self) -> bool:
        """Remove the pod, and tell whether it is gone."""
        core: Any = self._cluster.core
        place = {"name": self.name, "namespace": self._cluster.namespace, "_request_timeout": ANSWER_S}
        is_gone = False
        for _ in range(_TRIES):
            try:
                await body_of(await send(core.delete_namespaced_pod, grace_period_seconds=0, **place))
            except APIUnavailableError as error:
                is_gone = error.status == HTTPStatus.NOT_FOUND
                if is_gone and not self._is_under_way:
                    return True
                await asyncio.sleep(_POLL_S)
            else:
                return True
        return is_gone

    def told(self) -> tuple[Sight, ...]:
        if self._trouble and not self._pod:
            return (Sight(node=self._node, way=UNSET, trouble=self._trouble),)
        return sights(self._pod, node=self._node)
