"""Predicts whether a server would start now, after a new node, later, or never.

Enters: a pod as it would be created, an inventory of the cluster, and the chosen GPU type.
Leaves: a :class:`Verdict` with the reason as a clause; availability of each GPU type; selections that would start now.
It must not know the user, the policy, the form, or why a start that runs has failed. It reads no clock: an
inventory brings the age of its data.

:mod:`.verdict` decides: it counts pods ahead in the queue and doubts about unseen devices. :mod:`.reasons` says what is
missing. :mod:`.availability` counts total, healthy and free units, and what single nodes have free together.
:mod:`.alternatives` searches for similar selections that fit. :mod:`.wording` formats verdicts.
"""

from gpuspawner.core.verdict.alternatives import find_alternatives
from gpuspawner.core.verdict.availability import Availability, FreeShape, count_availability, count_held_units
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, Verdict, predict_verdict, starts_now
from gpuspawner.core.verdict.wording import format_verdict, format_verdict_label

__all__ = [
    "MAX_DATA_AGE_S",
    "Availability",
    "FreeShape",
    "Outcome",
    "Verdict",
    "count_availability",
    "count_held_units",
    "find_alternatives",
    "format_verdict",
    "format_verdict_label",
    "predict_verdict",
    "starts_now",
]
