"""Rules of ``doctor`` about MIG, time-slicing and MPS, and about GPUs that pods see without requesting them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, format_node_commands, name_nodes, shorten_list
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
_MANAGER = "kubectl logs -A -l app=nvidia-mig-manager --tail=50"


def check_mig_states(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings for nodes whose MIG layout NVIDIA's MIG manager could not apply, or has not applied yet."""
    failed = [node for node in facts.nodes if node.labels.get(_MIG_STATE_LABEL) == "failed"]
    if failed:
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="mig-config-failed",
            what=f"{name_nodes(_list_names(failed))}: The MIG layout {_list_layouts(failed)} could not be made.",
            why="The node has the slices of before, or none, whatever is offered.",
            fix=f"{_MANAGER}\n# Pods with GPUs keep it from being changed. Then once more:\n"
            + format_node_commands(_list_names(failed), "kubectl label node {node} nvidia.com/mig.config.state-")
            + "\n"
            + "\n".join(
                f"kubectl label node {node.name} "
                f"{_MIG_CONFIG_LABEL}={node.labels.get(_MIG_CONFIG_LABEL, 'LAYOUT')} --overwrite"
                for node in failed[:3]
            ),
            objects=_list_names(failed),
        )
    pending = [node for node in facts.nodes if node.labels.get(_MIG_STATE_LABEL) in ("pending", "rebooting")]
    if pending:
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="mig-config-pending",
            what=f"{name_nodes(_list_names(pending))}: The MIG layout {_list_layouts(pending)} is still being made.",
            why="Until it is, the node offers no GPU; pods with GPUs there hold it up.",
            fix=f"{_MANAGER}\n" + format_node_commands(_list_names(pending), "kubectl describe node {node}"),
            objects=_list_names(pending),
        )


def check_mig_strategies(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for nodes on which the device plugin and GPU Feature Discovery have different MIG strategies.

    On such a node, GPU Feature Discovery has set the label of the MIG strategy to "single", but the node has resources
    such as ``nvidia.com/mig-1g.5gb``, which only a device plugin with the strategy "mixed" advertises.
    """
    found = [
        node
        for node in facts.nodes
        if node.labels.get(_MIG_STRATEGY_LABEL) == "single"
        and any(parse_mig_profile(name) for name, n in node.capacity.items() if n)
    ]
    if found:
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="mig-strategy-mismatch",
            what=f"{name_nodes(_list_names(found))}: {_MIG_STRATEGY_LABEL} is single, and resources are named by "
            "MIG profile.",
            why="Device plugin and GPU Feature Discovery have different strategies: no label describes the slices.",
            fix="# One strategy for both:\n"
            "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge "
            """-p '{"spec": {"mig": {"strategy": "mixed"}}}'\n"""
            "# or, with the chart of NVIDIA's device plugin: --set migStrategy=mixed",
            objects=_list_names(found),
        )


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
        if not shared:
            continue
        refused = [node for node in shared if _refuses_two(node, gpu.resource)]
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT if refused else DiagnosisSeverity.WARNING,
            code="shared-count",
            what=f"GPU type {slug} may be asked for up to {gpu.max_count} times, and is shared on "
            f"{name_nodes(_list_names(shared)).lower()}.",
            why=(
                "The device plugin refuses more than one share for a pod: such servers fail."
                if refused
                else "Two shares may be the same GPU, and are no larger part of it."
            ),
            fix=f"# Helm values:\nhub:\n  config:\n    GPUSpawner:\n      gpus:\n        {slug}:\n"
            "          max_count: 1\n          unit: shared",
            objects=(slug, *_list_names(shared)),
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


_CLOSE = """\
# Take NVIDIA's runtime back as the default one of the nodes; GPUs then come by the device plugin alone:
nvidia-ctk runtime configure --runtime=containerd --cdi.enabled && systemctl restart containerd   # on each node
# GPU Operator: CDI on, and no default runtime
kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge -p '{"spec": {"cdi": {"enabled": true}}}'
# or let containers without privileges not ask by the variable, in /etc/nvidia-container-runtime/config.toml:
# accept-nvidia-visible-devices-envvar-when-unprivileged = false"""


def check_gpu_leaks(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding that names the nodes on which a probe pod sees GPUs, although it requests none.

    If GPUs are visible on some nodes even with ``NVIDIA_VISIBLE_DEVICES=void``, the finding names only these nodes: the
    leak there is more serious.
    """
    open_nodes = list(dict.fromkeys(each.node for each in facts.probe_results if each.devices and each.way == VOID))
    leaking = list(dict.fromkeys(each.node for each in facts.probe_results if each.devices and each.way != VOID))
    seen = sorted({device for each in facts.probe_results for device in each.devices})
    if open_nodes:
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="gpu-leak",
            what=f"{name_nodes(open_nodes)}: A pod without a GPU sees {shorten_list(seen)}, even with "
            f"{VISIBLE_DEVICES_VARIABLE}=void.",
            why="Every server there can use the GPUs of all others, and nothing in its manifest prevents it.",
            fix=f"# What gives it to pods: a default runtime, a webhook, a device rule of the node?\n{_CLOSE}",
            objects=tuple(open_nodes),
        )
    elif leaking:
        how = "by its image alone"
        if all(each.way == ALL_DEVICES for each in facts.probe_results if each.devices):
            how = f"where {VISIBLE_DEVICES_VARIABLE} is all, as images made for CUDA have it"
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="gpu-leak",
            what=f"{name_nodes(leaking)}: A pod without a GPU sees {shorten_list(seen)}, {how}.",
            why=f"Servers of gpuspawner are shielded ({VISIBLE_DEVICES_VARIABLE}=void); other pods there can use "
            "all of the node's GPUs.",
            fix=_CLOSE,
            objects=tuple(leaking),
        )


def check_privileged_containers(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if servers have privileged containers, which can open every GPU of their node."""
    privileged = facts.requirements.privileged if facts.requirements is not None else ()
    if privileged:
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="privileged",
            what=f"Servers run privileged containers: {shorten_list(privileged)}.",
            why="A privileged container can open every device of its node: the GPUs of all servers there, whatever the "
            "server was given, and the node's disks.",
            fix="# Helm values, for the notebook: hub.config.KubeSpawner.privileged: false\n"
            "# or give the one capability that is needed: singleuser.extraPodConfig, containers' securityContext",
            objects=privileged,
        )


def check_environment_sources(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a note if servers take all environment variables of a ConfigMap or Secret.

    These variables may include ``NVIDIA_VISIBLE_DEVICES``, which can expose GPUs that a server did not request.
    """
    sources = facts.requirements.environment_sources if facts.requirements is not None else ()
    if sources and facts.catalog.gpus:
        yield Diagnosis(
            severity=DiagnosisSeverity.NOTE,
            code="environment-source",
            what=f"Servers take all variables of {shorten_list(sources)} (envFrom).",
            why=f"{VISIBLE_DEVICES_VARIABLE} there would override which GPUs the device plugin gave a server.",
            fix="\n".join(
                f"kubectl get {each.lower()} -n {facts.namespace} -o yaml | grep _VISIBLE_DEVICES" for each in sources
            ),
            objects=sources,
        )


def check_unprobed_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a note that names the nodes on which the probe pod could not test whether pods without a GPU see GPUs."""
    troubles = {each.node: each.trouble for each in facts.probe_results if each.trouble}
    if troubles:
        yield Diagnosis(
            severity=DiagnosisSeverity.NOTE,
            code="probe-failed",
            what=f"{name_nodes(list(troubles))}: The probe pod could not look "
            f"({shorten_list(sorted(set(troubles.values())))}).",
            why="Whether pods without a GPU see GPUs there is not known.",
            fix="# It needs an image with /bin/sh that the nodes can pull: --probe-image IMAGE",
            objects=tuple(troubles),
        )
