"""What probe pods saw: GPUs of others, or none."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.cli.doctor.facts import ClusterFacts
from gpuspawner.cli.doctor.finding import Diagnosis, DiagnosisSeverity, name_nodes, shorten_list
from gpuspawner.cli.doctor.leaks import ALL_DEVICES, VISIBLE_DEVICES_VARIABLE, VOID

_CLOSE = """\
# Take NVIDIA's runtime back as the default one of the nodes; GPUs then come by the device plugin alone:
nvidia-ctk runtime configure --runtime=containerd --cdi.enabled && systemctl restart containerd   # on each node
# GPU Operator: CDI on, and no default runtime
kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge -p '{"spec": {"cdi": {"enabled": true}}}'
# or let containers without privileges not ask by the variable, in /etc/nvidia-container-runtime/config.toml:
# accept-nvidia-visible-devices-envvar-when-unprivileged = false"""


def check_gpu_leaks(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield nodes where a pod that asked for no GPU sees some."""
    open_nodes = list(dict.fromkeys(each.node for each in facts.probe_results if each.devices and each.way == VOID))
    leaking = list(dict.fromkeys(each.node for each in facts.probe_results if each.devices and each.way != VOID))
    seen = sorted({device for each in facts.probe_results for device in each.devices})
    if open_nodes:
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="gpu-leak",
            what=f"{name_nodes(open_nodes)}: A pod without a GPU sees {shorten_list(seen)}, even with "
            f"{VISIBLE_DEVICES_VARIABLE}=void.",
            why="Every server there can use everybody's GPUs, and nothing in its manifest prevents it.",
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
            "everybody's GPUs.",
            fix=_CLOSE,
            objects=tuple(leaking),
        )


def check_unprobed_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield nodes where a probe could not look."""
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
