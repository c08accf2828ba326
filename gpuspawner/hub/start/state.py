"""The state that a spawner keeps of one start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.metrics.starts import SpawnMeter
from gpuspawner.hub.spawner_protocol import AdmittedSpawner, PodBuildingSpawner
from gpuspawner.hub.start.stream import ProgressFeed


@dataclass(slots=True, eq=False)
class StartState:
    """The state of one start, kept until the next start begins.

    :param feed: its progress reports.
    :param meter: measures it, None before it has begun.
    :param removed_environment: names of variables that its pod must not have.
    :param pending_preflight: checks its pod before anything is created, None once that is done.
    :param is_refused: whether it was refused before anything was created.
    :param is_forgivable: whether the choice made it fail, so that it does not count as a failure of the hub.
    :param is_removing: whether its pod is being deleted.
    :param warned_pod_uid: uid of the pod whose end was announced, empty for none.
    """

    feed: ProgressFeed = field(default_factory=ProgressFeed)
    meter: SpawnMeter | None = None
    removed_environment: tuple[str, ...] = ()
    pending_preflight: Callable[[Any], Awaitable[None]] | None = None
    is_refused: bool = False
    is_forgivable: bool = False
    is_removing: bool = False
    warned_pod_uid: str = ""

    def make_next(self) -> StartState:
        """Return the state of the next start."""
        # A page that was opened just before the next start already waits on this feed.
        feed = self.feed if self.feed.has_not_begun and not self.feed.is_sent else ProgressFeed()
        feed.gpu = None
        # The deletion of a pod and its announced end outlast the start.
        return StartState(feed=feed, is_removing=self.is_removing, warned_pod_uid=self.warned_pod_uid)


class StartingSpawner(AdmittedSpawner, PodBuildingSpawner, Protocol):
    """A spawner in the middle of a start.

    :ivar event_reflector: KubeSpawner's watch of events, None where there is none.
    :ivar user_options: the choice as it is stored.
    :ivar start_timeout: seconds that JupyterHub gives the start.
    :ivar http_timeout: seconds that JupyterHub gives the server to answer once its pod runs.
    :ivar k8s_api_request_timeout: seconds that KubeSpawner gives a request.
    """

    admission: AdmissionService
    start_state: StartState
    event_reflector: Any
    user_options: Mapping[str, object]
    start_timeout: float
    http_timeout: float
    dry_run: bool
    k8s_api_request_timeout: float
    modify_pod_hook: Callable[[Any, Any], Any] | None

    async def make_offer(self) -> Offer:
        """Return the catalog and the inventory of this moment."""
