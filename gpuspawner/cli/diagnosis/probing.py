"""Starts probe pods, waits for what they saw, and leaves none behind."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from typing import Any

from gpuspawner.cli.cluster import Cluster
from gpuspawner.cli.diagnosis.asking import ANSWER_S
from gpuspawner.cli.diagnosis.leaks import UNSET, Sight, probe_pod, sights
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.kube.requests import APIUnavailableError, body_of, send

_ENDED = frozenset({"Succeeded", "Failed"})
_POLL_S = 0.5


async def probe(
    cluster: Cluster, nodes: Iterable[str], *, image: str, pull_policy: str = "", patience_s: float = 90.0
) -> tuple[Sight, ...]:
    """Return what pods without a GPU see on some nodes.

    :param patience_s: seconds that they may take, with pulling the image.
    """
    looks = [_Look(cluster, node) for node in nodes]
    try:
        async with asyncio.timeout(patience_s):
            await asyncio.gather(*(look.run(image, pull_policy) for look in looks))
    except TimeoutError:
        pass  # what is known by then is told
    finally:
        # Also when this is cancelled (Ctrl-C): what was begun here ends here.
        await asyncio.shield(asyncio.gather(*(look.remove() for look in looks)))
    return tuple(sight for look in looks for sight in look.told())


class _Look:
    """One probe pod."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node
        # Known before it is created: it is removed even if the answer to that never comes.
        self._name = f"gpuspawner-probe-{secrets.token_hex(4)}"
        self._pod: dict[str, object] = {}
        self._trouble = ""

    async def run(self, image: str, pull_policy: str) -> None:
        manifest = probe_pod(self._node, name=self._name, image=image, pull_policy=pull_policy)
        core: Any = self._cluster.core
        place = {"namespace": self._cluster.namespace, "_request_timeout": ANSWER_S}
        try:
            await body_of(await send(core.create_namespaced_pod, body=manifest, **place))
            while text(mapping(self._pod.get("status")).get("phase")) not in _ENDED:
                await asyncio.sleep(_POLL_S)
                answer = await body_of(await send(core.read_namespaced_pod, name=self._name, **place))
                self._pod = mapping(json.loads(answer))
        except (APIUnavailableError, ValueError) as error:
            self._trouble = str(error)

    async def remove(self) -> None:
        core: Any = self._cluster.core
        try:
            await body_of(
                await send(
                    core.delete_namespaced_pod,
                    name=self._name,
                    namespace=self._cluster.namespace,
                    grace_period_seconds=0,
                    _request_timeout=ANSWER_S,
                )
            )
        except APIUnavailableError:
            return  # it was never created, or its deadline ends it

    def told(self) -> tuple[Sight, ...]:
        if self._trouble and not self._pod:
            return (Sight(node=self._node, way=UNSET, trouble=self._trouble),)
        return sights(self._pod, node=self._node)
