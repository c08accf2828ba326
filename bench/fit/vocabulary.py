"""The words that nodes and pods are made of: those of GPU clusters in the field, few enough that they meet often."""

from __future__ import annotations

from collections.abc import Mapping

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
POOL = "cloud.google.com/gke-nodepool"
PURPOSE = "hub.jupyter.org/node-purpose"
PRODUCT = "nvidia.com/gpu.product"
GENERATION = "example.com/generation"

ZONES = ("zone-a", "zone-b", "zone-c")
TOPOLOGY_KEYS = {ZONE: 5, HOSTNAME: 5, POOL: 2, REGION: 1, "example.com/rack": 2}
POOLS = ("gpu", "cpu", "spot")
RACKS = ("r1", "r2")
# Label values for Gt and Lt: whole numbers in every notation that a label allows, the ends of 64 bits, words.
GENERATIONS = ("1", "2", "3", "007", "0", "9223372036854775807", "9223372036854775808", "abc", "0x10", "1.5", "")
NUMBERS_COMPARED = (
    "0",
    "1",
    "2",
    "40959",
    "40960",
    "81919",
    "81920",
    "9223372036854775806",
    "007",
    "9223372036854775808",
)

# The node labels are GPU Feature Discovery's, AMD's node labeller's and GKE's.
KINDS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "a100": {
        "labels": {PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "8"},
        "offers": {"nvidia.com/gpu": "8"},
    },
    "mig": {
        "labels": {PRODUCT: "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.count": "2"},
        "offers": {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "7", "nvidia.com/mig-3g.20gb": "2"},
    },
    "shared": {
        "labels": {
            PRODUCT: "Tesla-T4-SHARED",
            "nvidia.com/gpu.memory": "15360",
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.count": "1",
        },
        "offers": {"nvidia.com/gpu": "4"},
    },
    "mi300x": {
        "labels": {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
        "offers": {"amd.com/gpu": "8"},
    },
    "gke": {"labels": {"cloud.google.com/gke-accelerator": "nvidia-l4"}, "offers": {"nvidia.com/gpu": "2"}},
    "cpu": {"labels": {}, "offers": {}},
}
KIND_WEIGHTS = {"a100": 3, "mig": 2, "shared": 1, "mi300x": 2, "gke": 2, "cpu": 3}

TAINTS = (
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
    {"key": "hub.jupyter.org/dedicated", "value": "user", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "ml", "effect": "NoExecute"},
    {"key": "dedicated", "value": "other", "effect": "NoSchedule"},
    {"key": "spot", "value": "true", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"},
    {"key": "example.com/failures", "value": "3", "effect": "NoSchedule"},
    {"key": "example.com/failures", "value": "7", "effect": "NoExecute"},
    {"key": "example.com/failures", "value": "07", "effect": "NoSchedule"},
)
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
# The API server has every pod tolerate these two for five minutes (admission plugin DefaultTolerationSeconds).
NOT_READY_EVICTING = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
UNREACHABLE_EVICTING = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}

NAMESPACES: Mapping[str, Mapping[str, str]] = {"hub": {"team": "hub"}, "team-a": {"team": "a"}, "team-b": {"team": "b"}}
POD_LABELS: Mapping[str, tuple[str, ...]] = {
    "app": ("jupyterhub", "web"),
    "component": ("singleuser-server", "hub"),
    "team": ("a", "b"),
    "pod-template-hash": ("v1", "v2"),
}

PORT_WEIGHTS = {8888: 4, 9400: 1}
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing listens there
HOST_ADDRESSES = ("", ANY_ADDRESS, "127.0.0.1", "127.0.0.1", "10.0.0.1", "10.0.0.1")
PROTOCOLS = ("", "", "TCP", "UDP")

RUNTIME_CLASSES: Mapping[str, Mapping[str, str]] = {
    "kata": {"cpu": "250m", "memory": "120Mi"},
    "light": {"memory": "64Mi"},
}
"""The overhead of each RuntimeClass that has one."""
PLACED_CLASSES: Mapping[str, Mapping[str, object]] = {
    "rack": {"nodeSelector": {"example.com/rack": "r1"}},
    "tolerant": {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]},
    "plain": {},
}
"""The ``scheduling`` of each RuntimeClass without overhead."""
LIMIT_RANGE = {"namespace": "team-b", "defaultRequest": {"ephemeral-storage": "100Mi"}}
"""The namespace with a LimitRange, and what containers there request that do not say it themselves."""
PRIORITY_CLASSES: Mapping[str, Mapping[str, object]] = {
    "placeholder": {"value": -10},
    "usual": {"value": 5, "globalDefault": True},
    "urgent": {"value": 1000},
    "patient": {"value": 1000, "preemptionPolicy": "Never"},
}
"""Each PriorityClass; the user placeholders of zero-to-jupyterhub have the lowest."""
DELAYED = "delayed"
"""The StorageClass of claims that wait for their first pod, and the name of such a claim."""
CSI_DRIVER = "disk.example.com"
"""The CSI driver that may attach only few volumes to a node."""
DEVICE = "device"
"""The DRA device class that no node offers, and the name of a claim for one."""
