"""Reads from a finished pod what a start with a KubeSpawner profile, or with a form of the admin, asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from gpuspawner.core.catalog.model import NO_LIMIT, Catalog
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.pod_gpus import PodGPUs, classify_pod
from gpuspawner.core.cluster.decode import decode_pod
from gpuspawner.core.cluster.model import NOTEBOOK
from gpuspawner.core.json_access import as_dict, as_dicts
from gpuspawner.core.units.quantity import QuantityError, parse_millis, parse_whole_units


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a start asks for, as the policy compares it with the user's limits.

    :param gpus: the GPUs of all containers together.
    :param is_gpu_count_known: False if some container has an amount of GPUs that cannot be read; ``gpus`` lacks these.
    :param cpu: limit and request of the server's container in millicores; ``NO_LIMIT`` without one.
    :param memory: the same in bytes.
    :param custom_image: reference of the image, if the user has named it; else empty.
    """

    gpus: PodGPUs = field(default_factory=PodGPUs)
    is_gpu_count_known: bool = True
    cpu: tuple[int, int] = (NO_LIMIT, NO_LIMIT)
    memory: tuple[int, int] = (NO_LIMIT, NO_LIMIT)
    custom_image: str = ""


def read_candidate(manifest: Mapping[str, object], catalog: Catalog, *, names_image: bool = False) -> Candidate:
    """Return what a start with a finished pod asks for; a pod that has ended asks for no GPU.

    A limit that cannot be read counts as none, which is more than any policy allows.

    :param manifest: JSON of the pod.
    :param catalog: the catalog without any user's limits.
    :param names_image: whether the user has named the image of the server's container.
    """
    pod = decode_pod(manifest)
    spec = as_dict(manifest.get("spec"))
    containers = list(as_dicts(spec.get("containers")))
    # A hook may have put a sidecar before the server's container.
    named = (container for container in containers if container.get("name") == NOTEBOOK)
    notebook = next(chain(named, containers), {})
    amounts = as_dict(notebook.get("resources"))
    kinds = [as_dict(amounts.get(kind)) for kind in ("limits", "requests")]
    cpu_limit, cpu_request = (_parse(kind.get("cpu"), is_cpu=True) for kind in kinds)
    memory_limit, memory_request = (_parse(kind.get("memory"), is_cpu=False) for kind in kinds)
    return Candidate(
        gpus=PodGPUs() if pod is None else classify_pod(pod.requests, catalog, constraints=pod.constraints),
        is_gpu_count_known=_are_gpus_read(chain(containers, as_dicts(spec.get("initContainers"))), catalog),
        # For a pod with a limit and no request, Kubernetes sets the request to the limit.
        cpu=(cpu_limit, cpu_request if cpu_request != NO_LIMIT else cpu_limit),
        memory=(memory_limit, memory_request if memory_request != NO_LIMIT else memory_limit),
        custom_image=str(notebook.get("image") or "") if names_image else "",
    )


def _are_gpus_read(containers: Iterable[Mapping[str, object]], catalog: Catalog) -> bool:
    resources = {gpu.resource for gpu in (*catalog.gpus.values(), *catalog.hidden)}
    amounts = (
        amount
        for container in containers
        for kind in ("limits", "requests")
        for name, amount in as_dict(as_dict(container.get("resources")).get(kind)).items()
        if amount is not None and (name in resources or find_vendor(str(name)))
    )
    try:
        for amount in amounts:
            parse_whole_units(amount)
    except QuantityError:
        return False
    return True


def _parse(amount: object, *, is_cpu: bool) -> int:
    if amount is None:
        return NO_LIMIT
    try:
        return parse_millis(amount) if is_cpu else parse_whole_units(amount)
    except QuantityError:
        return NO_LIMIT
