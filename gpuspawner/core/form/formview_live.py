"""The part of the form that changes with the cluster: what each GPU type has, and whether the choice can start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.autoscaling.growth import may_bring
from gpuspawner.core.catalog.catalogue import Catalogue, GPUType, ScaleUp
from gpuspawner.core.cluster.model import Growth
from gpuspawner.core.form.formview_restore import values_of
from gpuspawner.core.form.formview_text import difference
from gpuspawner.core.form.formview_types import AlternativeView, State, VerdictView
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.text.language import gettext
from gpuspawner.core.text.sentences import paragraph
from gpuspawner.core.units.words import duration
from gpuspawner.core.verdict.availability import Availability
from gpuspawner.core.verdict.verdict import Verdict
from gpuspawner.core.verdict.verdict_text import verdict_label, verdict_sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What is known of the cluster at the moment the form is shown.

    :param availabilities: of each GPU type, in the catalogue's order; None: to be counted from the inventory.
    :param verdict: on the choice that stands in the fields; None where it is no valid one.
    :param alternatives: choices that fit where that one does not, the nearest first.
    :param presets: verdicts on presets as they are, by slug; none on those that nobody looked at.
    """

    availabilities: tuple[Availability, ...] | None = None
    verdict: Verdict | None = None
    alternatives: tuple[Selection, ...] = ()
    presets: Mapping[str, Verdict] = field(default_factory=dict)


def state_of(gpu: GPUType, available: Availability, *, growths: Iterable[Growth] | None = ()) -> tuple[State, str]:
    """Return whether one GPU of a type can start now, and why not, a sentence.

    :param growths: what autoscalers may add, None when that is not known.
    """
    if available.total is None:
        return State.UNKNOWN, ""
    if available.total == 0:
        if not scales(gpu, growths):
            return State.NEVER, gettext("The cluster has no node with this GPU.")
        return State.NONE, _with_new_node(gettext("No node with this GPU is running."), gpu)
    if available.healthy == 0:
        is_one = available.total == 1
        return State.NONE, gettext("Out of order right now.") if is_one else gettext("All are out of order right now.")
    if available.free is None:
        return State.UNKNOWN, ""
    if available.free:
        return State.FREE, ""
    # Not "in use": their nodes may be closed to new servers for the time being.
    reason = gettext("Not free right now.") if available.total == 1 else gettext("None is free right now.")
    return State.BUSY, _with_new_node(reason, gpu)


def verdict_view(live: Live, selection: Selection | None, *, catalogue: Catalogue) -> VerdictView | None:
    """Return the verdict in words, with what each alternative fills in; None where there is none.

    :param selection: what stands in the fields.
    """
    if live.verdict is None:
        return None
    return VerdictView(
        outcome=live.verdict.outcome.value,
        sentence=verdict_sentence(live.verdict),
        alternatives=tuple(
            AlternativeView(sentence=difference(other, selection, catalogue=catalogue), values=values_of(other))
            for other in live.alternatives
        ),
    )


def outlook_view(verdict: Verdict | None) -> VerdictView | None:
    """Return the verdict on a preset in a few words; None where there is none."""
    return None if verdict is None else VerdictView(outcome=verdict.outcome.value, sentence=verdict_label(verdict))


def scales(gpu: GPUType, growths: Iterable[Growth] | None = ()) -> bool:
    """Tell whether an autoscaler may add nodes with a type, as far as the admin said so, or the autoscaler itself."""
    return _fastest(gpu) is not None or growths is None or any(may_bring(each, gpu) for each in growths)


def _fastest(gpu: GPUType) -> ScaleUp | None:
    """Return the soonest that an autoscaler may add, of a type or of those that will do for it."""
    known = [each.scale_up for each in (gpu, *gpu.members) if each.scale_up is not None]
    return min(known, key=lambda each: each.minutes, default=None)


def _with_new_node(reason: str, gpu: GPUType) -> str:
    scale_up = _fastest(gpu)
    if scale_up is None:
        return reason
    return paragraph(reason, gettext("A new node takes {duration}.", duration=duration(scale_up.minutes)))
