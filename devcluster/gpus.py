"""The GPUs of the node that runs pods: stand-ins without hardware behind them, isolated by the kernel all the same.

Each GPU is a character device of a major number that no driver has. The devices cgroup decides who may open it: the pod
that it was allocated to gets ENXIO from the kernel (allowed, but nothing behind it), any other pod EPERM.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import DevclusterError

_LOCAL_MAJORS = (120, 121, 122, 123, 124, 125, 126, 127, 60, 61, 62, 63)
"""Reserved for local and experimental use by the kernel's admin-guide/devices.txt, and never handed out dynamically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUKind:
    """Some equal GPUs that a device plugin offers under one resource name."""

    resource: str
    count: int
    model: str
    """Its name in the output of `nvidia-smi` in a notebook, or `rocm-smi`."""
    path: str
    """The device's path in a container; {} is the GPU's number."""
    first: int = 0
    """The number of the first one."""
    id_prefix: str
    environment: str = ""
    """The variable in which the vendor's device plugin lists what it allocated."""

    @property
    def socket(self) -> str:
        """Return the name of the device plugin's socket."""
        return re.sub(r"[^a-z0-9]+", "-", self.resource) + ".sock"

    @property
    def numbers(self) -> range:
        """Return the numbers of these GPUs."""
        return range(self.first, self.first + self.count)

    def device_file(self, folder: Path, number: int) -> Path:
        """Return where a GPU's device file lies on the host."""
        return folder / self.path.format(number).removeprefix("/dev/")

    def device_id(self, number: int) -> str:
        """Return the identifier the kubelet knows a GPU by; the same in every cluster."""
        return f"{self.id_prefix}{uuid.uuid5(uuid.NAMESPACE_DNS, f'{number}.{self.resource}')}"


NVIDIA = GPUKind(
    resource="nvidia.com/gpu",
    count=4,
    model="NVIDIA A100-SXM4-40GB",
    path="/dev/nvidia{}",
    id_prefix="GPU-",
    environment="NVIDIA_VISIBLE_DEVICES",
)
MIG = GPUKind(
    resource="nvidia.com/mig-1g.5gb",
    count=7,
    model="NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    path="/dev/nvidia-caps/nvidia-cap{}",
    first=1,
    id_prefix="MIG-",
    environment="NVIDIA_VISIBLE_DEVICES",
)
AMD = GPUKind(
    resource="amd.com/gpu", count=2, model="AMD Instinct MI300X OAM", path="/dev/dri/renderD{}", first=128, id_prefix=""
)
KINDS = (NVIDIA, MIG, AMD)

LABELS = {
    # GPU Feature Discovery v0.20, mixed MIG strategy: the whole-card labels count the card that is cut into slices too.
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.count": "5",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/gpu.machine": "devcluster",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/cuda.driver-version.full": "580.95.05",
    "nvidia.com/cuda.driver-version.major": "580",
    "nvidia.com/cuda.driver-version.minor": "95",
    "nvidia.com/cuda.driver-version.revision": "05",
    "nvidia.com/cuda.runtime-version.full": "13.0",
    "nvidia.com/cuda.runtime-version.major": "13",
    "nvidia.com/cuda.runtime-version.minor": "0",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mps.capable": "false",
    "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "nvidia.com/mig-1g.5gb.count": "7",
    "nvidia.com/mig-1g.5gb.replicas": "1",
    "nvidia.com/mig-1g.5gb.sharing-strategy": "none",
    "nvidia.com/mig-1g.5gb.memory": "4864",
    "nvidia.com/mig-1g.5gb.multiprocessors": "14",
    "nvidia.com/mig-1g.5gb.slices.gi": "1",
    "nvidia.com/mig-1g.5gb.slices.ci": "1",
    "nvidia.com/mig-1g.5gb.engines.copy": "1",
    "nvidia.com/mig-1g.5gb.engines.decoder": "0",
    "nvidia.com/mig-1g.5gb.engines.encoder": "0",
    "nvidia.com/mig-1g.5gb.engines.jpeg": "0",
    "nvidia.com/mig-1g.5gb.engines.ofa": "0",
    # AMD's node labeller.
    "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
    "amd.com/gpu.vram": "192G",
    "amd.com/gpu.family": "AI",
    "amd.com/gpu.device-id": "74a1",
    "amd.com/gpu.cu-count": "304",
    "amd.com/gpu.simd-count": "1216",
    "beta.amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
    "beta.amd.com/gpu.vram": "192G",
    "beta.amd.com/gpu.vram.192G": "2",
}


def create_devices(folder: Path) -> None:
    """Create the device file of every GPU in a private folder.

    Raises DevclusterError where drivers occupy the major numbers, or this process may create no device files.
    """
    taken = _majors_in_use()
    free = [major for major in _LOCAL_MAJORS if major not in taken]
    if len(free) < len(KINDS):
        raise DevclusterError("drivers on this machine use the major device numbers for local use, 60-63 and 120-127")
    for kind, major in zip(KINDS, free, strict=False):
        for number in kind.numbers:
            path = kind.device_file(folder, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                try:
                    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, number))
                    path.chmod(0o666)  # mknod obeys the umask; what keeps others out is the devices cgroup
                except PermissionError as error:
                    raise DevclusterError(f"cannot create a device file in {folder}: CAP_MKNOD is missing") from error


def _majors_in_use() -> set[int]:
    listing = Path("/proc/devices").read_text().partition("Block devices:")[0]
    return {int(line.split()[0]) for line in listing.splitlines() if line[:3].strip().isdigit()}
