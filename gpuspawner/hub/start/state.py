"""The state of one start, and the protocol of a spawner during a start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Protocol

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.policy.admission import Admission
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import Offer, OfferFactory
from gpuspawner.hub.metrics.starts import SpawnMeter
from gpuspawner.hub.spawner_protocol import HubSpawner
from gpuspawner.hub.start.stream import ProgressFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnd:
    """The reason why a server ended, or why its start failed.

    :param message: the reason as plain text in the user's language.
    :param told_by: for a failed start, random ID of the hub's process whose progress page showed the reason; only a
        restarted hub announces it again. Empty for a server that ended after its start.
    :param at: when the server ended or the start failed, with a time zone.
    """

    code: str
    message: str
    told_by: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(slots=True, eq=False)
class StartState:
    """The state of one start, kept until the next start begins.

    :param meter: measures the start for Prometheus; None before the measurement begins.
    :param avoided: node selector expressions that keep a server without a GPU off GPU nodes; empty for a server with a
        GPU.
    :param profile: name of KubeSpawner's profile that the user has chosen; empty for a choice in gpuspawner's form.
    :param names_image: whether the user names the image of the server in a text field of the profile.
    :param texts: names of the options of the profile in which the user has written a text.
    :param has_read_options: whether the start has reached ``load_user_options``, which a subclass may replace.
    :param annotations: annotations of the pod that the start has built; empty before.
    :param is_pod_built: set once ``annotations`` are those of the pod.
    :param pending_preflight: function that checks the pod before KubeSpawner creates it. None until the hub has
        admitted the user's choice, and None again once the hub has called it.
    :param unaccepted: the error of the last dry run, while the hub repeats failed dry runs; else None.
    :param admitted_pod: the pod in the answer to the dry run, without environment variables; None without an answer.
    :param is_refused: whether the start was refused before KubeSpawner created a volume claim or the pod.
    :param admission: result of the check of the user options in ``apply_user_options``. None before this check, and
        again once ``load_user_options`` has read the result.
    :param is_pod_unseen: whether the hub has sent the pod to the API server and does not know whether the pod exists.
    :param follows_open_start: whether an earlier start of the spawner was cancelled or has failed, and the server was
        not stopped since. The earlier start may have left a pod.
    :param token: random text that identifies this start.
    :param before_stop: function that the hub calls before each stop of the server. The function can prevent the stop by
        raising an exception. None if nothing prevents a stop.
    :param hold: text that tells the user which finalizers keep a stopped server's pod from being deleted; empty if none
        does.
    :param is_resumed: whether an earlier process of the hub began the start. If such a start fails, the failure does
        not count toward JupyterHub's ``consecutive_failure_limit``.
    :param is_hidden: whether JupyterHub must not check the server when the hub starts, because the start is resumed.
    :param warned_pod_uid: uid of the pod for which the hub announced the end of its run time; empty for none.
    :param last_pod: JSON of the pod, from the last poll that found the pod; empty if no poll has found it.
    :param end: why the server ended; None while the server runs, or if there is no reason to announce.
    """

    feed: ProgressFeed = field(default_factory=ProgressFeed)
    meter: SpawnMeter | None = None
    avoided: tuple[MatchExpression, ...] = ()
    profile: str = ""
    names_image: bool = False
    texts: tuple[str, ...] = ()
    has_read_options: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_pod_built: asyncio.Event = field(default_factory=asyncio.Event)
    pending_preflight: Callable[[Any], Awaitable[None]] | None = None
    unaccepted: Exception | None = None
    admitted_pod: Mapping[str, Any] | None = None
    is_refused: bool = False
    is_admitted: bool = False
    admission: Admission | None = None
    is_pod_unseen: bool = False
    follows_open_start: bool = False
    token: str = field(default_factory=lambda: token_hex(8))
    before_stop: Callable[[], Awaitable[None]] | None = None
    is_removing: bool = False
    hold: str = ""
    is_resumed: bool = False
    is_hidden: bool = False
    warned_pod_uid: str = ""
    last_pod: Mapping[str, Any] = field(default_factory=dict)
    end: ServerEnd | None = None

    def make_next(self, *, follows_open_start: bool = False) -> StartState:
        """Return the state for the next start. It keeps the values about the pod, because the pod may still exist.

        :param follows_open_start: whether the present start, or one before it, is open (see
            :class:`~gpuspawner.hub.start.open_starts.OpenStarts`).
        """
        # Keep a feed that no start has used: an open progress page may already read it.
        feed = self.feed if self.feed.has_not_begun and not self.feed.is_sent else ProgressFeed()
        feed.gpu = None
        # Keep `end`: JupyterHub calls clear_state() before get_state(), which stores `end`.
        return StartState(
            feed=feed,
            follows_open_start=follows_open_start,
            is_pod_unseen=follows_open_start and self.is_pod_unseen,
            is_removing=self.is_removing,
            hold=self.hold,
            warned_pod_uid=self.warned_pod_uid,
            end=self.end,
        )


class StartingSpawner(HubSpawner, Protocol):
    """A spawner with the state of its start, and with what the hub offers."""

    admission: AdmissionService
    offer_factory: OfferFactory
    start_state: StartState

    async def make_offer(self) -> Offer:
        """Return the current offer: the catalog of choices and the cluster's nodes and pods."""

    def resume(self) -> asyncio.Future[Any]:
        """Continue the start; the future returns what ``start()`` would return, or raises what it would raise."""
