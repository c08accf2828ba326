"""GPU types and images that are legal as settings, and of no use to anybody on any cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.cli.chart_values import Said, expressions, pod_tolerations, required_terms, trait
from gpuspawner.cli.told_taints import ToldTaint, is_tolerated, told_taints
from gpuspawner.cli.values import Values
from gpuspawner.core.assemble import Configured
from gpuspawner.core.catalogue import GPUType, Image
from gpuspawner.core.errors import Problem
from gpuspawner.core.quoting import listing, name_of, quote

_START_TIMEOUT_S = 300
"""What the chart has in ``singleuser.startTimeout``."""


def type_advice(values: Values, configured: Configured) -> Iterator[Problem]:
    """Yield what is to be said of GPU types and what goes with them, as paths below the section."""
    yield from undeclared_images(configured.images, configured.gpus)
    if not configured.discover and not configured.gpus:
        message = "is false, and there are no GPU types under gpus: nobody can pick a GPU"
        yield Problem(field="discover_gpus", code="unused", message=message)
    told = tuple(told_taints(values, configured.gpus))
    for slug, gpu in configured.gpus.items():
        path = f"gpus.{slug}"
        yield from _untolerated(path, gpu, values=values, told=told)
        yield from _never(path, gpu, values=values)
        yield from _patience(path, gpu, values=values)
        rivals = [each.slug for each in configured.gpus.values() if each.resource == gpu.resource and each is not gpu]
        if rivals and not gpu.match:
            message = f"is missing: every node with {gpu.resource} counts, those of {listing(rivals)} as well"
            yield Problem(field=f"{path}.match", code="too_wide", message=message)


def undeclared_images(images: Mapping[str, Image], gpus: Mapping[str, GPUType]) -> Iterator[Problem]:
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


def _untolerated(path: str, gpu: GPUType, *, values: Values, told: tuple[ToldTaint, ...]) -> Iterator[Problem]:
    own = (*gpu.tolerations, *pod_tolerations(values))
    for each in told:
        if each.concerns(gpu) and not is_tolerated(each.taint, own):
            effect = f":{each.taint.effect}" if each.taint.effect else ""
            message = (
                f"do not tolerate the taint {name_of(each.taint.key)}{effect}, which {each.who}: "
                f"its nodes would take no server"
            )
            yield Problem(field=f"{path}.tolerations", code="untolerated", message=message)


def _never(path: str, gpu: GPUType, *, values: Values) -> Iterator[Problem]:
    """Yield labels that servers' other node selectors rule out."""
    selector = trait(values, "node_selector")
    if selector is not None and isinstance(selector.value, Mapping):
        for key, value in selector.value.items():
            if key in gpu.match and gpu.match[key] and value not in gpu.match[key]:
                where = ".".join(map(str, selector.path))
                message = f"matches no node that {where} leaves: it asks for {quote(str(value))}"
                yield Problem(field=f"{path}.match.{key}", code="matches_nothing", message=message)
    terms = required_terms(values)
    if terms is not None and all(_rules_out(term, gpu) for term in terms.value):
        message = f"matches no node that {'.'.join(map(str, Said(*terms).path))} leaves"
        yield Problem(field=f"{path}.match", code="matches_nothing", message=message)


def _rules_out(term: object, gpu: GPUType) -> bool:
    for each in expressions(term):
        wanted = gpu.match.get(str(each.get("key")))
        asked = each.get("values")
        if not wanted or not isinstance(asked, list):
            continue
        if each.get("operator") == "In" and set(wanted).isdisjoint(map(str, asked)):
            return True
        if each.get("operator") == "NotIn" and set(wanted) <= set(map(str, asked)):
            return True
    return False


def _patience(path: str, gpu: GPUType, *, values: Values) -> Iterator[Problem]:
    """Yield that a start is given up before the node that it waits for can be there."""
    if gpu.scale_up is None:
        return
    said = trait(values, "start_timeout")
    general = said.value if said is not None and isinstance(said.value, int | float) else _START_TIMEOUT_S
    timeout_s = gpu.start_timeout_s or general
    if gpu.scale_up.minutes * 60 >= timeout_s:
        field = f"{path}.start_timeout" if gpu.start_timeout_s else f"{path}.scale_up.minutes"
        message = (
            f"a new node takes {gpu.scale_up.minutes:g} minutes, and a start is given up after {timeout_s:g} seconds: "
            "say a longer start_timeout"
        )
        yield Problem(field=field, code="too_short", message=message)
