"""A pod that another system lets start when its turn comes, in words: Kueue's queue, or another scheduling gate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuspawner.core.progress.event_sources import EventSource, SourcedEvent, find_newest_event
from gpuspawner.core.progress.pod_status import is_queued_by_kueue
from gpuspawner.core.progress.stages import ProgressMessage, QueuePlace, Stage
from gpuspawner.core.text.language import gettext, ngettext
from gpuspawner.core.text.sentences import join_sentences

_TOO_LARGE_REASONS = frozenset({"ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Inadmissible"})
_NEVER_ADMITTED = re.compile(
    r"> maximum capacity|unavailable in ClusterQueue|doesn't (?:match node affinity|exist)|is inactive"
)
_QUEUE_EVENTS = frozenset({"Pending", "CreatedWorkload", "Stopped", "ErrWorkloadCompose", "EvictedDueToPreempted"})


def describe_queue(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, place: QueuePlace | None
) -> ProgressMessage:
    """Return where in a queue a pod is that has scheduling gates."""
    if not is_queued_by_kueue(pod):
        return ProgressMessage(
            stage=Stage.QUEUED, sentence=gettext("Another system decides when your server may start.")
        )
    event = find_newest_event(events, {EventSource.KUEUE}, reasons=_QUEUE_EVENTS)
    known = place or QueuePlace()
    if event is not None and event.reason == "ErrWorkloadCompose":
        sentence = gettext("The queue cannot take your server as it is set up.")
        return ProgressMessage(stage=Stage.QUEUED, sentence=sentence, event=event, is_alarm=True)
    said = event.message if event is not None and event.reason == "Pending" else ""
    is_alarm = known.reason in _TOO_LARGE_REASONS or bool(_NEVER_ADMITTED.search(said))
    sentence = join_sentences(
        _format_queue(known.queue), _format_queue_position(known.position), _format_too_large() if is_alarm else ""
    )
    return ProgressMessage(stage=Stage.QUEUED, sentence=sentence, event=event, is_alarm=is_alarm)


def _format_queue(queue: str) -> str:
    if queue:
        return gettext("Your server waits in the queue {queue}.", queue=queue)
    return gettext("Your server waits in the queue.")


def _format_queue_position(position: int | None) -> str:
    if position is None:
        return ""
    if position <= 0:
        return gettext("It is next.")
    return ngettext("{number} is ahead of it.", "{number} are ahead of it.", number=position)


def _format_too_large() -> str:
    return gettext("The queue has no place for it as things are.")
