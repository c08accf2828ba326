"""GPU types and images that are legal as settings, and of no use to anybody on any cluster.

Taints of GPU nodes that the values themselves tell of, without a look at any cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.values.helm_values import HelmValues
from gpuspawner.cli.values.trait_sources import (
    TraitSource,
    find_node_selector_terms,
    find_trait_source,
    list_match_expressions,
    list_pod_tolerations,
)
from gpuspawner.core.catalog.accelerators import GKE_ACCELERATOR
from gpuspawner.core.catalog.model import GPUType, Image
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.discovery.discover import build_conventional_tolerations
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import format_list, quote, sanitize_name
from gpuspawner.hub.admission.admin_traits import parse_admin_tolerations

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


_START_TIMEOUT_S = 300
"""What the chart has in ``singleuser.startTimeout``."""
_MAX_TAINTS = 5
"""That are named of one type: hundreds of types on the same nodes may tell of as many taints each."""


def find_type_warnings(values: HelmValues, configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield what is to be said of GPU types and what goes with them, as paths below the section."""
    yield from find_undeclared_images(configured.images, configured.gpus)
    if not configured.discover and not configured.gpus:
        message = "is false, and there are no GPU types under gpus: nobody can pick a GPU"
        yield Problem(field="discover_gpus", code="unused", message=message)
    told, of_all, terms = ImpliedTaints(values, configured.gpus), list_pod_tolerations(values), _list_terms(values)
    rivals: dict[str, list[str]] = {}
    for slug, gpu in configured.gpus.items():
        rivals.setdefault(gpu.resource, []).append(slug)
    for slug, gpu in configured.gpus.items():
        path = f"gpus.{slug}"
        yield from _check_taints(path, gpu, own=(*gpu.tolerations, *of_all), told=told)
        yield from _check_node_selectors(path, gpu, values=values, terms=terms)
        yield from _check_start_timeout(path, gpu, values=values)
        if not gpu.match and len(rivals[gpu.resource]) > 1:
            others = rivals[gpu.resource].copy()
            others.remove(slug)
            message = f"is missing: every node with {gpu.resource} counts, those of {format_list(others)} as well"
            yield Problem(field=f"{path}.match", code="too_wide", message=message)


def find_undeclared_images(images: Mapping[str, Image], gpus: Mapping[str, GPUType]) -> Iterator[Problem]:
    """Yield images that may be started on NVIDIA's GPUs without anybody saying for which CUDA they are made."""
    if not any(gpu.vendor == "nvidia" for gpu in gpus.values()):
        return
    for slug, image in images.items():
        if image.cuda is None and (image.vendors is None or "nvidia" in image.vendors):
            message = (
                "does not say for which CUDA it is made, so nobody is told when a node's driver is too old for it: "
                'say cuda: "12.8", or vendors: [] where it is not for GPUs'
            )
            yield Problem(field=f"images.{slug}", code="no_cuda", message=message)


def _check_taints(path: str, gpu: GPUType, *, own: tuple[Toleration, ...], told: ImpliedTaints) -> Iterator[Problem]:
    unmet = (each for each in told.list_taints(gpu) if not is_tolerated(each.taint, own))
    for number, each in enumerate(unmet):
        effect = f":{each.taint.effect}" if each.taint.effect else ""
        message = (
            f"do not tolerate the taint {sanitize_name(each.taint.key)}{effect}, which {each.source}: "
            f"its nodes would take no server"
        )
        if number == _MAX_TAINTS:
            message = f"do not tolerate more taints that others do: {_MAX_TAINTS} are named, and there are others"
        yield Problem(field=f"{path}.tolerations", code="untolerated", message=message)
        if number == _MAX_TAINTS:
            return


def _check_node_selectors(
    path: str, gpu: GPUType, *, values: HelmValues, terms: TraitSource | None
) -> Iterator[Problem]:
    """Yield labels that servers' other node selectors rule out."""
    selector = find_trait_source(values, "node_selector")
    if selector is not None and isinstance(selector.value, Mapping):
        for key, value in selector.value.items():
            if key in gpu.match and gpu.match[key] and value not in gpu.match[key]:
                where = ".".join(map(str, selector.path))
                message = f"matches no node that {where} leaves: it asks for {quote(str(value))}"
                yield Problem(field=f"{path}.match.{key}", code="matches_nothing", message=message)
    if terms is not None and all(_rules_out(term, gpu) for term in terms.value):
        message = f"matches no node that {'.'.join(map(str, terms.path))} leaves"
        yield Problem(field=f"{path}.match", code="matches_nothing", message=message)


def _list_terms(values: HelmValues) -> TraitSource | None:
    """Return for each term what it asks of labels: key, operator and values; None where there are no terms."""
    said = find_node_selector_terms(values)
    if said is None:
        return None
    asked = [
        [
            (str(each.get("key")), each.get("operator"), frozenset(map(str, each["values"])))
            for each in list_match_expressions(term)
            if isinstance(each.get("values"), list)
        ]
        for term in said.value
    ]
    return TraitSource(said.path, asked)


def _rules_out(term: Iterable[tuple[str, object, frozenset[str]]], gpu: GPUType) -> bool:
    for key, operator, asked in term:
        wanted = gpu.match.get(key)
        if wanted and operator == "In" and asked.isdisjoint(wanted):
            return True
        if wanted and operator == "NotIn" and asked.issuperset(wanted):
            return True
    return False


def _check_start_timeout(path: str, gpu: GPUType, *, values: HelmValues) -> Iterator[Problem]:
    """Yield that a start is given up before the node that it waits for can be there."""
    if gpu.scale_up is None:
        return
    said = find_trait_source(values, "start_timeout")
    general = said.value if said is not None and isinstance(said.value, int | float) else _START_TIMEOUT_S
    timeout_s = gpu.start_timeout_s or general
    if gpu.scale_up.minutes * 60 >= timeout_s:
        field = f"{path}.start_timeout" if gpu.start_timeout_s else f"{path}.scale_up.minutes"
        message = (
            f"a new node takes {gpu.scale_up.minutes:g} minutes, and a start is given up after {timeout_s:g} seconds: "
            "say a longer start_timeout"
        )
        yield Problem(field=field, code="too_short", message=message)
