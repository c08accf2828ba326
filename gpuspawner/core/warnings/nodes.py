"""Warns admins about GPU nodes: GPUs that no user can choose and why, and GPUs that do not work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpuspawner.core.catalog.accelerators import GFD_PRODUCT, AcceleratorTable
from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.node_gpus import LabelContradiction, NodeGPU, read_node_gpu
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.nodes_by_type import count_units
from gpuspawner.core.cluster.dra import Device, ResourceSlice
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.cluster.taints import find_untolerated_taints, is_transient_taint
from gpuspawner.core.discovery.discover import GPU_NODE_LABELS, find_gpu_node_label, group_nodes_by_kind
from gpuspawner.core.text.wording import format_list, sanitize_name


class WarningKind(StrEnum):
    """The kinds of warnings, in the order in which the form and the log show them."""

    PRESET = "preset"
    POLICY = "policy"
    DROPPED_GPUS = "dropped-gpus"
    MIG_INVALID = "mig-invalid"
    CONTRADICTION = "contradiction"
    NO_TYPE = "no-type"
    UNTOLERATED = "untolerated"
    BROKEN = "broken"
    NO_DEVICE_CLASS = "no-device-class"
    NO_RESOURCE = "no-resource"
    UNCOUNTED = "uncounted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWarning:
    """A warning about some nodes, presets or settings.

    :param kind: the kind of problem.
    :param resource: the extended resource that the problem is about; empty for a problem without a resource.
    :param message: one or more sentences with the problem and its fix.
    :param nodes: names of the affected nodes, sorted.
    :param presets: slugs of the affected presets; only if ``nodes`` is empty.
    :param settings: paths of the affected settings; only if ``nodes`` and ``presets`` are empty.
    """

    kind: WarningKind
    resource: str
    message: str
    nodes: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes or presets, or paths of the settings, that the warning is about."""
        return self.nodes or self.presets or self.settings


def find_node_warnings(
    nodes: Iterable[Node],
    catalog: Catalog,
    *,
    table: AcceleratorTable,
    tolerations: tuple[Toleration, ...] = (),
    slices: Iterable[ResourceSlice] = (),
) -> tuple[AdminWarning, ...]:
    """Return warnings about the nodes' GPUs, sorted by kind. All nodes with the same problem share one warning.

    GPUs of types that the admin disabled (``enabled: false``) cause no warning, except one for DRA devices that
    gpuspawner cannot count. The function skips nodes that are unready or have a temporary taint, because their GPUs may
    still appear.

    :param catalog: the catalog built from these nodes.
    :param table: the known GPU models.
    :param tolerations: tolerations that every server has, besides those of the GPU types.
    :param slices: all ResourceSlices of DRA drivers, if the caller reads them. A hub does not read them before a
        DeviceClass names an extended resource.
    """
    types = (*catalog.gpus.values(), *catalog.hidden)
    matched = {key for gpu in types for match in gpu.label_matches for key in match}
    devices = describe_devices(slices)
    settled = tuple(filter(_is_settled, nodes))
    groups = (
        *group_nodes_by_kind(
            (node for node in settled if node.name not in devices), labels=matched.union(GPU_NODE_LABELS)
        ),
        *((node,) for node in settled if node.name in devices),
    )
    case = _NodeInspection(catalog=catalog, table=table, tolerations=tolerations, devices=devices)
    found: dict[AdminWarning, list[str]] = {}
    for group in groups:
        for warning in case.list_warnings(group[0]):
            found.setdefault(warning, []).extend(node.name for node in group)
    complete = (replace(warning, nodes=tuple(sorted(names))) for warning, names in found.items())
    order = list(WarningKind)
    return tuple(sorted(complete, key=lambda warning: (order.index(warning.kind), warning.nodes, warning.message)))


def _is_settled(node: Node) -> bool:
    return node.ready and not any(map(is_transient_taint, node.taints))


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeInspection:
    catalog: Catalog
    table: AcceleratorTable
    tolerations: tuple[Toleration, ...]
    devices: Mapping[str, str]

    def list_warnings(self, node: Node) -> Iterator[AdminWarning]:
        names = {*node.capacity, *node.allocatable}
        resources = sorted(name for name in names if find_vendor(name) is not None and count_units(node, name))
        unsure = tuple(_warn_of_uncounted_devices(node))
        yield from unsure
        if not resources and not unsure and node.name in self.devices and not node.published_by_dra:
            yield _warn_of_missing_class(self.devices[node.name])
        elif not resources and not unsure:
            yield from _warn_of_missing_resource(node)
        for resource in resources:
            yield from self._list_resource_warnings(node, resource)

    def _list_resource_warnings(self, node: Node, resource: str) -> Iterator[AdminWarning]:
        types = [
            gpu for gpu in self.catalog.gpus.values() if gpu.resource == resource and gpu.matches_labels(node.labels)
        ]
        if not types and any(
            gpu.resource == resource and gpu.matches_labels(node.labels) for gpu in self.catalog.hidden
        ):
            return
        judged = read_node_gpu(node, resource, table=self.table)
        if isinstance(judged, LabelContradiction):
            yield _warn_of_contradiction(judged, resource, types=types)
        elif not types:
            yield _warn_of_missing_type(judged)
        elif keys := _list_blocking_taints(node, types, tolerations=self.tolerations):
            message = (
                f"No server can get {resource}: no GPU type there tolerates the taint {format_list(keys)}. "
                "Add a toleration to the type, unless the nodes are for others."
            )
            yield AdminWarning(kind=WarningKind.UNTOLERATED, resource=resource, message=message)
        number = count_units(node, resource)
        broken = number - node.allocatable.get(resource, 0)
        if broken > 0:
            message = (
                f"{broken} of {number} {resource} on a node {'do' if broken > 1 else 'does'} not work: "
                "allocatable is less than capacity."
            )
            yield AdminWarning(kind=WarningKind.BROKEN, resource=resource, message=message)


def _warn_of_missing_type(gpu: NodeGPU) -> AdminWarning:
    model = gpu.descriptions[0].model
    what = f"{gpu.resource} ({sanitize_name(model[1])})" if model is not None else gpu.resource
    message = (
        f"{what} is not offered: no GPU type of the settings matches the labels. "
        "Describe one in gpus, with a match that these nodes meet and those of other types do not."
    )
    return AdminWarning(kind=WarningKind.NO_TYPE, resource=gpu.resource, message=message)


def _warn_of_contradiction(found: LabelContradiction, resource: str, *, types: list[GPUType]) -> AdminWarning:
    lead = f"{resource} is not offered" if not types else f"{resource} may not be what {types[0].slug} says"
    kind = WarningKind.MIG_INVALID if found.is_invalid_mig else WarningKind.CONTRADICTION
    return AdminWarning(kind=kind, resource=resource, message=f"{lead}: {found.reason}")


def _warn_of_missing_resource(node: Node) -> Iterator[AdminWarning]:
    label = find_gpu_node_label(node.labels)
    if _has_invalid_mig(node):
        # With the MIG strategy "single" and an invalid MIG layout, NVIDIA's device plugin runs but offers no GPUs.
        yield AdminWarning(
            kind=WarningKind.MIG_INVALID, resource="", message=f"No GPU is offered: {_advise_on_mig(node)}"
        )
    elif label is not None:
        message = (
            f"There are GPUs by the label {label}, and no resource for them: does a device plugin run there, "
            "or does a DeviceClass name the resource for the devices of a DRA driver?"
        )
        yield AdminWarning(kind=WarningKind.NO_RESOURCE, resource="", message=message)


_OTHER_DRIVERS = re.compile(r"(^|[.-])(dra\.net|net|networking|nic|rdma|cpu|memory|compute-domain)([.-]|$)", re.ASCII)
"""Pattern of the names of DRA drivers whose devices are no GPUs or other accelerators."""
_MAX_PRODUCTS = 3


def describe_devices(slices: Iterable[ResourceSlice]) -> dict[str, str]:
    """Return node → the devices that DRA drivers publish there, as text: ``8 devices of the DRA driver …``.

    Devices of networks, and devices that several nodes can use, are left out.
    """
    found: dict[str, dict[str, list[Device]]] = {}
    for device_slice in slices:
        if device_slice.node is not None and device_slice.devices and not _OTHER_DRIVERS.search(device_slice.driver):
            found.setdefault(device_slice.node, {}).setdefault(device_slice.driver, []).extend(device_slice.devices)
    return {
        node: " and ".join(_format_devices(driver, devices) for driver, devices in sorted(by_driver.items()))
        for node, by_driver in found.items()
    }


def _format_devices(driver: str, devices: Sequence[Device]) -> str:
    products = {
        sanitize_name(value)
        for device in devices
        for name, value in device.attributes.items()
        # NVIDIA's and AMD's drivers call a GPU's model "productName", Intel's and some others "model".
        if name.rpartition("/")[2] in ("productName", "model")
    }
    number = f"{len(devices)} device{'s' * (len(devices) > 1)} of the DRA driver {sanitize_name(driver)}"
    return f"{number} ({format_list(sorted(products), max_items=_MAX_PRODUCTS)})" if products else number


def _warn_of_missing_class(devices: str) -> AdminWarning:
    message = (
        f"Its ResourceSlices hold {devices}, and no user can choose them: a GPU type needs an extended resource, "
        "and no DeviceClass names one for them (extendedResourceName)."
    )
    return AdminWarning(kind=WarningKind.NO_DEVICE_CLASS, resource="", message=message)


def _has_invalid_mig(node: Node) -> bool:
    return "-MIG-INVALID" in node.labels.get(GFD_PRODUCT, "")


def _advise_on_mig(node: Node) -> str:
    return (
        f"the MIG layout is not the same on all GPUs ({sanitize_name(node.labels[GFD_PRODUCT])}). "
        "Make it the same, or use the device plugin's strategy mixed."
    )


def _warn_of_uncounted_devices(node: Node) -> Iterator[AdminWarning]:
    for resource in sorted(filter(find_vendor, node.uncounted)):
        message = (
            f"The number of {resource} of a DRA driver is unknown: the hub may not list resourceclaims, the "
            "DeviceClass selects devices by rules unknown to gpuspawner, or devices are shared or parts of others."
        )
        yield AdminWarning(kind=WarningKind.UNCOUNTED, resource=resource, message=message)


def _list_blocking_taints(node: Node, types: Iterable[GPUType], *, tolerations: tuple[Toleration, ...]) -> list[str]:
    keys: list[str] = []
    for gpu in types:
        untolerated = [
            each
            for each in find_untolerated_taints(node, (*gpu.tolerations, *tolerations))
            if not is_transient_taint(each)
        ]
        if not untolerated:
            return []
        keys += [sanitize_name(each.key) for each in untolerated]
    return list(dict.fromkeys(keys))
