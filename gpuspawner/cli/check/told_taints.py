"""Taints of GPU nodes that the values themselves tell of, without a look at any cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.values.chart_values import find_trait_source
from gpuspawner.cli.values.values import HelmValues
from gpuspawner.core.catalog.accelerators import GKE_ACCELERATOR
from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.discovery.discovery import build_conventional_tolerations
from gpuspawner.core.text.quoting import quote, sanitize_name
from gpuspawner.hub.admission.room import parse_admin_tolerations

_AKS_SPOT = "kubernetes.azure.com/scalesetpriority"
_TAINTS_BY_LABEL = (
    # https://cloud.google.com/kubernetes-engine/docs/how-to/gpus
    (GKE_ACCELERATOR, "", Toleration(key="nvidia.com/gpu", operator="Equal", value="present", effect="NoSchedule"),
     "GKE puts on GPU nodes"),
    # https://learn.microsoft.com/azure/aks/spot-node-pool
    (_AKS_SPOT, "spot", Toleration(key=_AKS_SPOT, operator="Equal", value="spot", effect="NoSchedule"),
     "AKS puts on spot nodes"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpliedTaint:
    """A taint that somebody speaks of.

    :param taint: as the toleration that goes with it: of a taint with a value that nobody tells, all that is known.
    :param source: who says so, as the end of "which …".
    """

    taint: Toleration
    source: str


class ImpliedTaints:
    """The taints that clouds set by rule, that types tolerate on the same nodes, and that profiles tolerate.

    A type whose nodes have a taint by its own word is told of it too, and tolerates it.
    """

    def __init__(self, values: HelmValues, gpus: Mapping[str, GPUType]) -> None:
        self._by_match: dict[object, dict[Toleration, ImpliedTaint]] = {}
        self._by_resource: dict[str, dict[Toleration, ImpliedTaint]] = {}
        usual = {
            resource: build_conventional_tolerations(resource) for resource in {gpu.resource for gpu in gpus.values()}
        }
        for gpu in gpus.values():
            for each in gpu.tolerations:
                if each.key and each not in usual[gpu.resource] and gpu.match:
                    who = f"{quote(gpu.slug)} tolerates on the same nodes"
                    told = self._by_match.setdefault(_make_node_key(gpu), {})
                    told.setdefault(each, ImpliedTaint(taint=each, source=who))
        profiles = find_trait_source(values, "profile_list")
        for profile in profiles.value if profiles is not None and isinstance(profiles.value, list) else []:
            for resource, taint in _list_profile_taints(profile):
                self._by_resource.setdefault(resource, {}).setdefault(taint.taint, taint)

    def list_taints(self, gpu: GPUType) -> Iterator[ImpliedTaint]:
        """Yield the taints that a type's nodes have, by what is told."""
        for key, value, taint, who in _TAINTS_BY_LABEL:
            if key in gpu.match and (not value or gpu.match[key] == (value,)):
                yield ImpliedTaint(taint=taint, source=who)
        yield from self._by_match.get(_make_node_key(gpu), {}).values()
        yield from self._by_resource.get(gpu.resource, {}).values()


def is_tolerated(taint: Toleration, own: tuple[Toleration, ...]) -> bool:
    """Tell whether what is told of a taint may be covered."""
    return any(
        (not taint.effect or each.effect in ("", taint.effect))
        and each.key in ("", taint.key)
        and _matches_value(each, taint)
        for each in own
    )


def _matches_value(own: Toleration, taint: Toleration) -> bool:
    return own.operator == "Exists" or taint.operator == "Exists" or own.value == taint.value


def _make_node_key(gpu: GPUType) -> object:
    """Return what is equal for types that are on the same nodes."""
    return frozenset((key, frozenset(values)) for key, values in gpu.match.items())


def _list_profile_taints(profile: Any) -> Iterator[tuple[str, ImpliedTaint]]:
    """Yield resources that a profile asks for, and what it tolerates on their nodes."""
    override = profile.get("kubespawner_override") if isinstance(profile, Mapping) else None
    limits = override.get("extra_resource_limits") if isinstance(override, Mapping) else None
    if not isinstance(override, Mapping) or not isinstance(limits, Mapping):
        return
    name = sanitize_name(str(profile.get("display_name") or ""))
    for resource in limits:
        for taint in parse_admin_tolerations(override.get("tolerations")):
            yield str(resource), ImpliedTaint(taint=taint, source=f"the profile {quote(name)} tolerates")
