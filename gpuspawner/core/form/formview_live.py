"""The part of the form that changes with the cluster: what each GPU type has, and whether the choice can start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.autoscaling.growth import may_add_gpu_type
from gpuspawner.core.catalog.catalogue import Catalog, GPUType, ScaleUp
from gpuspawner.core.cluster.model import ScalableNodePool
from gpuspawner.core.form.formview_restore import format_field_values
from gpuspawner.core.form.formview_text import describe_difference
from gpuspawner.core.form.formview_types import AlternativeView, GPUTypeState, VerdictView
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.text.language import gettext
from gpuspawner.core.text.sentences import join_sentences
from gpuspawner.core.units.words import format_rough_duration
from gpuspawner.core.verdict.availability import Availability
from gpuspawner.core.verdict.verdict import Verdict
from gpuspawner.core.verdict.verdict_text import format_verdict, format_verdict_label


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
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


def find_type_state(
    gpu: GPUType, available: Availability, *, scalable_pools: Iterable[ScalableNodePool] | None = ()
) -> tuple[GPUTypeState, str]:
    """Return whether one GPU of a type can start now, and why not, a sentence.

    :param growths: what autoscalers may add, None when that is not known.
    """
    if available.total is None:
        return GPUTypeState.UNKNOWN, ""
    if available.total == 0:
        if not can_add_nodes(gpu, scalable_pools):
            return GPUTypeState.NEVER, gettext("The cluster has no node with this GPU.")
        return GPUTypeState.NONE, _append_new_node_time(gettext("No node with this GPU is running."), gpu)
    if available.healthy == 0:
        is_one = available.total == 1
        return GPUTypeState.NONE, gettext("Out of order right now.") if is_one else gettext(
            "All are out of order right now."
        )
    if available.free is None:
        return GPUTypeState.UNKNOWN, ""
    if available.free:
        return GPUTypeState.FREE, ""
    # Not "in use": their nodes may be closed to new servers for the time being.
    reason = gettext("Not free right now.") if available.total == 1 else gettext("None is free right now.")
    return GPUTypeState.BUSY, _append_new_node_time(reason, gpu)


def build_verdict_view(live: LiveState, selection: Selection | None, *, catalogue: Catalog) -> VerdictView | None:
    """Return the verdict in words, with what each alternative fills in; None where there is none.

    :param selection: what stands in the fields.
    """
    if live.verdict is None:
        return None
    return VerdictView(
        outcome=live.verdict.outcome.value,
        sentence=format_verdict(live.verdict),
        alternatives=tuple(
            AlternativeView(
                sentence=describe_difference(other, selection, catalogue=catalogue), values=format_field_values(other)
            )
            for other in live.alternatives
        ),
    )


def build_outlook_view(verdict: Verdict | None) -> VerdictView | None:
    """Return the verdict on a preset in a few words; None where there is none."""
    return (
        None if verdict is None else VerdictView(outcome=verdict.outcome.value, sentence=format_verdict_label(verdict))
    )


def can_add_nodes(gpu: GPUType, scalable_pools: Iterable[ScalableNodePool] | None = ()) -> bool:
    """Tell whether an autoscaler may add nodes with a type, as far as the admin said so, or the autoscaler itself."""
    return (
        _find_fastest_scale_up(gpu) is not None
        or scalable_pools is None
        or any(may_add_gpu_type(each, gpu) for each in scalable_pools)
    )


def _find_fastest_scale_up(gpu: GPUType) -> ScaleUp | None:
    """Return the soonest that an autoscaler may add, of a type or of those that will do for it."""
    known = [each.scale_up for each in (gpu, *gpu.members) if each.scale_up is not None]
    return min(known, key=lambda each: each.minutes, default=None)


def _append_new_node_time(reason: str, gpu: GPUType) -> str:
    scale_up = _find_fastest_scale_up(gpu)
    if scale_up is None:
        return reason
    return join_sentences(
        reason, gettext("A new node takes {duration}.", duration=format_rough_duration(scale_up.minutes))
    )
