"""What JupyterHub reads of a server's life: whether it starts, runs or stops.

JupyterHub guards what it does with a server by these answers. It removes and renames a server that is not active, and
starts a server that is neither pending nor ready. So the answers must be true until all starts of the server have ended
and their pod is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from typing_extensions import override

from gpuspawner.hub.admission.profiles import ProfileSupport
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.start import endings
from gpuspawner.hub.start.open_starts import OpenStarts
from gpuspawner.hub.start.preflight import drop_draft
from gpuspawner.hub.start.state import StartState
from gpuspawner.hub.trait_overrides import TraitOverrides

_PAUSE_S = 0.2
"""Seconds between two checks of whether a server has stopped."""
_REMOVED_S = 1.0
"""Seconds after the deletion of a server's volume claim in which JupyterHub removes the server's row."""


class ServerLife(ProfileSupport):
    """The part of :class:`~gpuspawner.hub.spawner.GPUSpawner` that answers JupyterHub's questions about the server.

    :ivar open_starts: the starts that run, or that were cancelled or have failed.
    :ivar start_state: the state of the last start.
    """

    _removed_rows: ClassVar[dict[int, Any]] = {}
    """Rows of the hub's database of servers that JupyterHub removes now, by ``id()``."""
    open_starts: OpenStarts
    start_state: StartState
    trait_overrides: TraitOverrides
    start_timeout: int
    pod_name: str
    namespace: str
    pod_reflector: Any
    _start_future: asyncio.Future[Any] | None

    @property
    def has_open_start(self) -> bool:
        """Whether a start was cancelled or has failed, and JupyterHub has not stopped the server since."""
        return self.open_starts.need_stop

    async def begin_start(self, start: Callable[[], Awaitable[Any]]) -> Any:
        """Start the pod, when all earlier starts have ended and their pod is gone."""
        if self.open_starts.have_earlier:
            await self._end_earlier_starts()
        future = self._start_future
        starting = start()
        self._start_future = future  # KubeSpawner replaces it by its own.
        return await starting

    async def _end_earlier_starts(self) -> None:
        start_timeout = self.start_timeout
        await self.open_starts.end_earlier()
        if endings.may_have_pod(self, is_pod_unseen=self.start_state.is_pod_unseen):
            await self.stop()
        self.open_starts.close_earlier()
        self.start_state.follows_open_start = self.start_state.is_pod_unseen = False
        # An earlier start may have set these after clear_state().
        self.start_state.is_refused = False
        drop_draft(self)
        self.trait_overrides.restore()
        # apply_user_options has set the timeout for this start, and JupyterHub already waits that long.
        self.trait_overrides.assign({"start_timeout": start_timeout})

    @property
    @override
    def pending(self) -> str | None:
        """What JupyterHub is doing with the server: ``spawn``, ``stop``, ``check`` or ``rename``; None for nothing.

        A cancelled start counts as ``stop``, except for the request that has cancelled it: one second later, that
        request stops the server, but only if nothing is pending.
        """
        pending: str | None = super().pending
        is_cancelled = private_api.is_start_cancelled(self)
        if pending == "spawn" and not is_cancelled:
            self.open_starts.note_request()
            return pending
        if id(self.orm_spawner) in self._removed_rows:
            return "stop"
        if not (is_cancelled or self.has_open_start) or pending in {"check", "rename"}:
            return pending
        return "stop" if private_api.is_stop_pending(self) or self.open_starts.is_stop_ahead else None

    @property
    @override
    def ready(self) -> bool:
        """Whether JupyterHub considers the server ready; a server whose start was cancelled or has failed is not ready.

        If the request that cancelled the start has not stopped the server, the server counts as ready: JupyterHub
        stops only a server that is ready or pending.
        """
        if not super().ready:
            return False
        return not self._has_ended_start() or self.open_starts.has_lost_stop

    @property
    @override
    def active(self) -> bool:
        """Whether the server runs, starts or stops, or has a pod that a cancelled or failed start may have left."""
        # JupyterHub may remove a server by an object that it has replaced.
        spawners = getattr(self.user, "spawners", {})
        last = spawners.get(self.name, self)
        return self._is_active() if last is self else bool(last.active)

    def _is_active(self) -> bool:
        if super().active or private_api.is_start_cancelled(self):
            return True
        return self.server is not None and self._has_ended_start()

    def _has_ended_start(self) -> bool:
        return private_api.is_start_cancelled(self) or self.has_open_start or endings.has_failed_start(self)

    @property
    @override
    def _failed(self) -> Any:
        # JupyterHub's own property raises CancelledError after a cancelled start.
        return None if private_api.is_start_cancelled(self) else super()._failed

    @property
    def _stop_future(self) -> Awaitable[None]:
        """What JupyterHub waits for before it removes a server that stops."""
        # JupyterHub sets `spawner._stop_future` only when it begins to stop the server.
        return vars(self).get("_stop_future") or self._wait_until_stopped()

    @_stop_future.setter
    def _stop_future(self, future: Awaitable[None] | None) -> None:
        self.__dict__["_stop_future"] = future

    async def _wait_until_stopped(self) -> None:
        while private_api.is_stop_pending(self) or self._is_stop_awaited():  # noqa: ASYNC110  # JupyterHub has no event
            await asyncio.sleep(_PAUSE_S)

    def _is_stop_awaited(self) -> bool:
        return self._has_ended_start() and not self.open_starts.has_lost_stop

    @override
    def delete_forever(self) -> asyncio.Future[None]:
        """Delete the server's volume claim if ``delete_pvc`` is set, before JupyterHub removes the server.

        Until JupyterHub has removed the server, it counts as stopping. Otherwise, another request could start the
        server meanwhile, and JupyterHub would then forget a running pod. Of two requests that remove the server when it
        has stopped, the second could delete the claim and the row of a server that was created after the first.
        """
        # Do not use `async def`: JupyterHub asks for the second request before the first one's task has begun.
        loop, rows, row = asyncio.get_running_loop(), self._removed_rows, self.orm_spawner
        rows[id(row)] = row
        deletion: asyncio.Future[None] = asyncio.ensure_future(super().delete_forever())
        deletion.add_done_callback(lambda _: loop.call_later(_REMOVED_S, rows.pop, id(row), None))
        return deletion
