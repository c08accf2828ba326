"""The node that runs pods: containerd, kubelet and device plugin, and the places they see as their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from devcluster import gpus, kubeconfig, namespaces
from devcluster.components import REAL_NODE, Component, Plan, flags
from devcluster.images import PAUSE_IMAGE
from devcluster.run_dir import RunDir, write

STATUS_PERIOD_S = 2
"""How often the kubelet tells the API server what the node has."""
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"

LABELS = {
    "gpuspawner.jupyter.org/real": "true",
    "node.kubernetes.io/instance-type": "devcluster",
    **gpus.LABELS,
}

_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the whole machine that the kubelet changes if they differ (setupKernelTunables in pkg/kubelet/cm)."""


def components(plan: Plan) -> tuple[Component, ...]:
    """Write the node's configuration files and return its programs in the order to start them."""
    run_dir = plan.run_dir
    temporary = run_dir.node / "tmp"
    temporary.mkdir(exist_ok=True)
    containerd = Component(
        name="containerd",
        argv=(str(plan.binaries / "containerd"), "--config", str(_containerd_config(plan))),
        # containerd finds its shim on PATH.
        environment={
            "TMPDIR": str(temporary),
            "PATH": f"{plan.binaries}:{os.environ.get('PATH', '/usr/sbin:/usr/bin')}",
        },
    )
    options = flags(
        config=_kubelet_config(plan),
        kubeconfig=kubeconfig.for_certificate(run_dir, plan.addresses, user="kubelet"),
        hostname_override=REAL_NODE,
        node_ip=plan.addresses.gateway,
        node_labels=",".join(f"{key}={value}" for key, value in LABELS.items()),
    )
    kubelet = Component(
        name="kubelet",
        argv=(str(plan.binaries / "kubelet"), *options),
        environment={"TMPDIR": str(temporary)},
        needs_api=True,
    )
    plugin = Component(
        name="device-plugin", argv=(sys.executable, "-m", "devcluster.device_plugin", str(run_dir.devices))
    )
    return (containerd, kubelet, plugin)


def arrange(run_dir: RunDir) -> None:
    """Give the node its own /proc, and its own folders where kubelet and containerd insist on fixed places.

    Runs as the first process of the node's namespaces.
    """
    namespaces.mount_proc()
    _pretend_sysctls(run_dir)
    for folder, own in _own_folders(run_dir).items():
        scratch = run_dir.node / "scratch"
        scratch.mkdir(exist_ok=True)
        namespaces.overlay_folder(folder, own, scratch=scratch)


def _own_folders(run_dir: RunDir) -> Mapping[Path, Mapping[str, Path | None]]:
    def kept(name: str) -> Path:
        path = run_dir.node / name
        path.mkdir(exist_ok=True)
        return path

    return {
        Path("/var/lib"): {"kubelet": kept("kubelet"), "containerd": kept("containerd"), "cni": kept("cni")},
        Path("/var/log"): {"pods": kept("pods"), "containers": None},
        Path("/run"): {"containerd": None, "netns": None, "nri": None, "cdi": None},
    }


def _pretend_sysctls(run_dir: RunDir) -> None:
    """Show the kubelet the settings that it would otherwise change for the whole machine."""
    for name, value in _SYSCTLS.items():
        knob = Path("/proc/sys") / name
        if knob.exists() and knob.read_text().strip() != value:
            namespaces.bind(write(run_dir.etc / f"sysctl-{knob.name}", f"{value}\n"), knob)


def _kubelet_config(plan: Plan) -> Path:
    pki = plan.run_dir.pki
    resolv = write(plan.run_dir.etc / "resolv.conf", f"nameserver {plan.addresses.gateway}\n")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": plan.addresses.gateway,
        "port": plan.addresses.kubelet_port,
        "healthzPort": 0,
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(pki / "ca.crt")}},
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{plan.run_dir.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        # No kube-proxy here, so no rule of the kubelet's own has a reader.
        "makeIPTablesUtilChains": False,
        # Nothing listens on that port, so a look-up in a pod fails at once instead of after a time-out.
        "clusterDNS": [plan.addresses.gateway],
        "resolvConf": str(resolv),
        "maxPods": 200,
        "serializeImagePulls": False,
        # Also the time-out of each update, so not too short for a busy machine.
        "nodeStatusUpdateFrequency": f"{STATUS_PERIOD_S}s",
        # A developer's disk is often nearly full, and nothing here is worth evicting for it.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "eventRecordQPS": 0,
    }
    return write(plan.run_dir.etc / "kubelet.yaml", yaml.safe_dump(config))


def _containerd_config(plan: Plan) -> Path:
    folder = plan.run_dir.etc / "cni"
    folder.mkdir(exist_ok=True)
    write(folder / "10-devcluster.conflist", json.dumps(_cni_config(plan)))
    text = f"""\
version = 4
imports = []
disabled_plugins = [
  "io.containerd.image-verifier.v1.bindir",
  "io.containerd.monitor.container.v1.restart",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]
[plugins."io.containerd.cri.v1.images"]
snapshotter = "{_snapshotter(plan.run_dir)}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
# A profile would have to be loaded into the machine's kernel, and stay there.
disable_apparmor = true
enable_criu = false
# runc fails where CAP_SYS_RESOURCE is missing, as in many virtual machines' and containers' roots.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plan.cni}"]
conf_dir = "{folder}"
use_internal_loopback = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{plan.runc}"
SystemdCgroup = false
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.metadata.v1.bolt"]
no_sync = true
[plugins."io.containerd.nri.v1.nri"]
disable = true
"""
    return write(plan.run_dir.etc / "containerd.toml", text)


def _snapshotter(run_dir: RunDir) -> str:
    """Return overlayfs, or plain copies where the folder itself lies on an overlay, which takes no second one."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [entry for entry in mounts if run_dir.path.is_relative_to(entry[1])]
    kind = max(holding, key=lambda entry: len(entry[1]))[2]
    return "native" if kind == "overlay" else "overlayfs"


def _cni_config(plan: Plan) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": plan.run_dir.bridge,
        # The bridge has its address already; the plugin would also switch on forwarding for the whole machine.
        "isGateway": False,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": "/var/lib/cni/networks",
            "ranges": [[{"subnet": plan.addresses.pod_subnet, "gateway": plan.addresses.gateway}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "1.0.0", "name": "devcluster", "plugins": [bridge]}
