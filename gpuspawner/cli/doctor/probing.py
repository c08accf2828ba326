"""Starts probe pods, waits for what they saw, and leaves none behind."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from gpuspawner.cli.cluster.cluster import ClusterConnection
from gpuspawner.cli.doctor.asking import REQUEST_TIMEOUT_S
from gpuspawner.cli.doctor.leaks import UNSET, ProbeResult, build_probe_pod, parse_probe_results
from gpuspawner.core.rawjson import as_dict, as_text
from gpuspawner.kube.client.requests import APIUnavailableError, read_body, send_request

_ENDED_PHASES = frozenset({"Succeeded", "Failed"})
_POLL_S = 0.5
_REMOVE_ATTEMPTS = 4
"""To remove a pod."""


async def run_probe_pods(
    cluster: ClusterConnection,
    nodes: Iterable[str],
    *,
    image: str,
    leftover: list[str],
    pull_policy: str = "",
    timeout_s: float = 90.0,
) -> tuple[ProbeResult, ...]:
    """Return what pods without a GPU see on some nodes.

    :param leftover: has the names of pods that are not removed, or may not be, also when this is cancelled, and again.
    :param timeout_s: seconds that they may take, with pulling the image.
    """
    looks = [_ProbePod(cluster, node) for node in nodes]
    # All of them until they are gone: whoever is interrupted twice waits for no answer.
    leftover += [look.name for look in looks]
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*(look.run(image, pull_policy) for look in looks))
    except TimeoutError:
        pass  # what is known by then is told
    finally:
        # Also when this is cancelled (Ctrl-C): what was begun here ends here. Cancelled again, it ends at once.
        await asyncio.gather(*(_remove_probe(look, leftover) for look in looks))
    return tuple(sight for look in looks for sight in look.list_results())


async def _remove_probe(pod: _ProbePod, leftover: list[str]) -> None:
    if await pod.remove():
        leftover.remove(pod.name)


class _ProbePod:
    """One probe pod."""

    def __init__(self, cluster: ClusterConnection, node: str) -> None:
        self._cluster = cluster
        self._node = node
        # Known before it is created: it is removed even if the answer to that never comes.
        self.name = f"gpuspawner-probe-{secrets.token_hex(4)}"
        self._pod: dict[str, object] = {}
        self._trouble = ""
        self._is_under_way = False
        """It was asked for, and nobody said yet that it is there: it may still come."""

    async def run(self, image: str, pull_policy: str) -> None:
        manifest = build_probe_pod(self._node, name=self.name, image=image, pull_policy=pull_policy)
        core: Any = self._cluster.core
        place = {"namespace": self._cluster.namespace, "_request_timeout": REQUEST_TIMEOUT_S}
        try:
            self._is_under_way = True
            await read_body(await send_request(core.create_namespaced_pod, body=manifest, **place))
            self._is_under_way = False
            while as_text(as_dict(self._pod.get("status")).get("phase")) not in _ENDED_PHASES:
                await asyncio.sleep(_POLL_S)
                answer = await read_body(await send_request(core.read_namespaced_pod, name=self.name, **place))
                self._pod = as_dict(json.loads(answer))
        except (APIUnavailableError, ValueError) as error:
            self._trouble = str(error)
            if getattr(error, "status", None) is not None:
                self._is_under_way = False  # it was refused

    async def remove(self) -> bool:
        """Remove the pod, and tell whether it is gone."""
        core: Any = self._cluster.core
        place = {"name": self.name, "namespace": self._cluster.namespace, "_request_timeout": REQUEST_TIMEOUT_S}
        is_gone = False
        for _ in range(_REMOVE_ATTEMPTS):
            try:
                await read_body(await send_request(core.delete_namespaced_pod, grace_period_seconds=0, **place))
            except APIUnavailableError as error:
                is_gone = error.status == HTTPStatus.NOT_FOUND
                if is_gone and not self._is_under_way:
                    return True
                await asyncio.sleep(_POLL_S)
            else:
                return True
        return is_gone

    def list_results(self) -> tuple[ProbeResult, ...]:
        if self._trouble and not self._pod:
            return (ProbeResult(node=self._node, way=UNSET, trouble=self._trouble),)
        return parse_probe_results(self._pod, node=self._node)
