"""Taints of GPU nodes that the values themselves tell of, without a look at any cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.chart_values import trait
from gpuspawner.cli.values import Values
from gpuspawner.core.accelerators import GKE_ACCELERATOR
from gpuspawner.core.catalogue import GPUType, Toleration
from gpuspawner.core.discovery import conventional_tolerations
from gpuspawner.core.quoting import name_of, quote
from gpuspawner.hub.room import tolerations

_AKS_SPOT = "kubernetes.azure.com/scalesetpriority"
_BY_LABEL = (
    # https://cloud.google.com/kubernetes-engine/docs/how-to/gpus
    (GKE_ACCELERATOR, "", Toleration(key="nvidia.com/gpu", operator="Equal", value="present", effect="NoSchedule"),
     "GKE puts on GPU nodes"),
    # https://learn.microsoft.com/azure/aks/spot-node-pool
    (_AKS_SPOT, "spot", Toleration(key=_AKS_SPOT, operator="Equal", value="spot", effect="NoSchedule"),
     "AKS puts on spot nodes"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTaint:
    """A taint that somebody speaks of.

    :param taint: as the toleration that goes with it: of a taint with a value that nobody tells, all that is known.
    :param who: who says so, as the end of "which …".
    :param slug: GPU type that says so of its nodes; empty where ``resource`` or ``label`` tells whom it concerns.
    :param label: and its value, empty for any, that the nodes have.
    """

    taint: Toleration
    who: str
    slug: str = ""
    match: Mapping[str, tuple[str, ...]] | None = None
    resource: str = ""
    label: tuple[str, str] | None = None

    def concerns(self, gpu: GPUType) -> bool:
        """Tell whether a type's nodes are those that have it."""
        if self.label is not None:
            key, value = self.label
            return key in gpu.match and (not value or gpu.match[key] == (value,))
        if self.match is not None:
            return gpu.slug != self.slug and _are_the_same(self.match, gpu.match)
        return gpu.resource == self.resource


def told_taints(values: Values, gpus: Mapping[str, GPUType]) -> Iterator[ToldTaint]:
    """Yield the taints that clouds set by rule, that other types tolerate on the same nodes, that profiles tolerate."""
    for key, value, taint, who in _BY_LABEL:
        yield ToldTaint(taint=taint, who=who, label=(key, value))
    for gpu in gpus.values():
        usual = conventional_tolerations(gpu.resource)
        for each in gpu.tolerations:
            if each.key and each not in usual and gpu.match:
                who = f"{quote(gpu.slug)} tolerates on the same nodes"
                yield ToldTaint(taint=each, who=who, slug=gpu.slug, match=gpu.match)
    profiles = trait(values, "profile_list")
    entries = profiles.value if profiles is not None and isinstance(profiles.value, list) else []
    for profile in entries:
        yield from _of_profile(profile)


def is_tolerated(taint: Toleration, own: tuple[Toleration, ...]) -> bool:
    """Tell whether what is told of a taint may be covered."""
    return any(
        (not taint.effect or each.effect in ("", taint.effect)) and each.key in ("", taint.key) and _fits(each, taint)
        for each in own
    )


def _fits(own: Toleration, taint: Toleration) -> bool:
    return own.operator == "Exists" or taint.operator == "Exists" or own.value == taint.value


def _are_the_same(one: Mapping[str, tuple[str, ...]], other: Mapping[str, tuple[str, ...]]) -> bool:
    """Tell whether two matches are met by the same nodes."""
    return {key: set(values) for key, values in one.items()} == {key: set(values) for key, values in other.items()}


def _of_profile(profile: Any) -> Iterator[ToldTaint]:
    override = profile.get("kubespawner_override") if isinstance(profile, Mapping) else None
    limits = override.get("extra_resource_limits") if isinstance(override, Mapping) else None
    if not isinstance(override, Mapping) or not isinstance(limits, Mapping):
        return
    name = name_of(str(profile.get("display_name") or ""))
    for resource in limits:
        for taint in tolerations(override.get("tolerations")):
            yield ToldTaint(taint=taint, who=f"the profile {quote(name)} tolerates", resource=str(resource))
