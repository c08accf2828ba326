"""Rules of ``doctor`` about MIG, time-slicing and MPS, and about GPUs that pods see without requesting them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuspawner.cli.doctor.diagnosis import Diagnosis, make_diagnosis, name_nodes, shorten_list
from gpuspawner.cli.doctor.facts import ClusterFacts
from gpuspawner.cli.doctor.isolation_probe import ALL_DEVICES, VISIBLE_DEVICES_VARIABLE, VOID
from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.node_gpus import NodeGPU, read_node_gpu
from gpuspawner.core.catalog.node_labels import parse_mig_profile
from gpuspawner.core.catalog.nodes_by_type import may_have_units
from gpuspawner.core.cluster.model import Node

_MIG_STATE_LABEL = "nvidia.com/mig.config.state"
_MIG_CONFIG_LABEL = "nvidia.com/mig.config"
_MIG_STRATEGY_LABEL = "nvidia.com/mig.strategy"
_GKE_SHARING_LABEL = "cloud.google.com/gke-gpu-sharing-strategy"


def check_mig_states(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings for nodes whose MIG layout NVIDIA's MIG manager could not apply, or has not applied yet."""
    failed = [node for node in facts.nodes if node.labels.get(_MIG_STATE_LABEL) == "failed"]
    if failed:
        layouts = {node.name: node.labels.get(_MIG_CONFIG_LABEL, "LAYOUT") for node in failed[:3]}
        again = (
            f"kubectl label node {name} {_MIG_CONFIG_LABEL}={layout} --overwrite" for name, layout in layouts.items()
        )
        yield make_diagnosis(
            "mig-config-failed", nodes=_list_names(failed), layouts=_list_layouts(failed), again="\n".join(again)
        )
    pending = [node for node in facts.nodes if node.labels.get(_MIG_STATE_LABEL) in ("pending", "rebooting")]
    if pending:
        yield make_diagnosis("mig-config-pending", nodes=_list_names(pending), layouts=_list_layouts(pending))


def check_mig_strategies(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for nodes on which the device plugin and GPU Feature Discovery have different MIG strategies.

    On such a node, GPU Feature Discovery has set the label of the MIG strategy to "single", but the node has resources
    such as ``nvidia.com/mig-1g.5gb``, which only a device plugin with the strategy "mixed" advertises.
    """
    nodes = [
        node
        for node in facts.nodes
        if node.labels.get(_MIG_STRATEGY_LABEL) == "single"
        and any(parse_mig_profile(name) for name, number in node.capacity.items() if number)
    ]
    if nodes:
        yield make_diagnosis("mig-strategy-mismatch", nodes=_list_names(nodes))


def check_shared_counts(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each GPU type of the settings that has shared GPUs and a ``max_count`` above 1.

    The device plugin may reject a server that requests several shares, or give it shares of the same GPU.
    """
    for slug in facts.configured.gpus:
        gpu = facts.catalog.gpus.get(slug)
        if gpu is None or gpu.max_count == 1 or gpu.members:
            continue
        shared = [
            node
            for node in facts.nodes
            if gpu.matches_labels(node.labels) and _is_shared(node, gpu.resource, table=facts.table)
        ]
        if shared:
            names = _list_names(shared)
            is_refused = any(_refuses_two(node, gpu.resource) for node in shared)
            yield make_diagnosis(
                "shared-count" if is_refused else "shared-count/useless",
                objects=[slug, *names],
                slug=slug,
                count=gpu.max_count,
                where=name_nodes(names).lower(),
            )


def _is_shared(node: Node, resource: str, *, table: AcceleratorTable) -> bool:
    judged = read_node_gpu(node, resource, table=table)
    return may_have_units(node, resource) and isinstance(judged, NodeGPU) and judged.shared


def _refuses_two(node: Node, resource: str) -> bool:
    """Return whether the device plugin rejects pods that request several shares of GPUs on the node.

    GKE's device plugin always rejects such pods. NVIDIA's device plugin rejects them by default if MPS shares the GPUs.
    """
    return bool(node.labels.get(_GKE_SHARING_LABEL)) or node.labels.get(f"{resource}.sharing-strategy") == "mps"


def _list_layouts(nodes: Iterable[Node]) -> str:
    return " and ".join(sorted({node.labels.get(_MIG_CONFIG_LABEL, "that was asked for") for node in nodes}))


def _list_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


def check_gpu_leaks(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding that names the nodes on which a probe pod sees GPUs, although it requests none.

    If GPUs are visible on some nodes even with ``NVIDIA_VISIBLE_DEVICES=void``, the finding names only these nodes: the
    leak there is more serious.
    """
    leaks = [result for result in facts.probe_results if result.devices]
    open_nodes = list(dict.fromkeys(result.node for result in leaks if result.way == VOID))
    leaking = list(dict.fromkeys(result.node for result in leaks))
    devices = shorten_list(sorted({device for result in leaks for device in result.devices}))
    if open_nodes:
        yield make_diagnosis("gpu-leak/void", nodes=open_nodes, devices=devices)
    elif leaking:
        how = "by its image alone"
        if all(result.way == ALL_DEVICES for result in leaks):
            how = f"where {VISIBLE_DEVICES_VARIABLE} is all, as images made for CUDA have it"
        yield make_diagnosis("gpu-leak", nodes=leaking, devices=devices, how=how)


def check_privileged_containers(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if servers have privileged containers, which can open every GPU of their node."""
    privileged = facts.requirements.privileged if facts.requirements is not None else ()
    if privileged:
        yield make_diagnosis("privileged", objects=privileged, containers=shorten_list(privileged))


def check_environment_sources(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a note if servers take all environment variables of a ConfigMap or Secret.

    These variables may include ``NVIDIA_VISIBLE_DEVICES``, which can expose GPUs that a server did not request.
    """
    sources = facts.requirements.environment_sources if facts.requirements is not None else ()
    if sources and facts.catalog.gpus:
        commands = (
            f"kubectl get {source.lower()} -n {facts.namespace} -o yaml | grep _VISIBLE_DEVICES" for source in sources
        )
        yield make_diagnosis(
            "environment-source", objects=sources, sources=shorten_list(sources), commands="\n".join(commands)
        )


def check_unprobed_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a note that names the nodes on which the probe pod could not test whether pods without a GPU see GPUs."""
    troubles = {result.node: result.trouble for result in facts.probe_results if result.trouble}
    if troubles:
        yield make_diagnosis(
            "probe-failed", nodes=list(troubles), troubles=shorten_list(sorted(set(troubles.values())))
        )
