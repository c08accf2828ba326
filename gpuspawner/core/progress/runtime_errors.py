"""Parses kubelet's messages about containers that cannot be started, and says whose fault it is.

Kubelet passes on the error of the container runtime (containerd, CRI-O), which may contain that of runc or crun, and
of the GPU vendor's hooks. Each of them writes ``no such file or directory`` about its own files: only runc and crun
mean the program in the image.
"""

from __future__ import annotations

import re
from enum import StrEnum

from gpuspawner.core.progress.images import STORE_DAMAGE
from gpuspawner.core.text.i18n import gettext


class RuntimeFault(StrEnum):
    """What keeps a container from being started."""

    OVERLOAD = "overload"
    """The container runtime has too much to do; kubelet tries again and often succeeds."""
    OLD_DRIVER = "old-driver"
    """The node's GPU driver is older than the image demands."""
    DEVICE = "device"
    """A device of the node, its driver, or the vendor's hook for containers does not work."""
    DISK = "disk"
    """A disk or file of the node that is to be mounted into the container is gone."""
    IMAGE_STORE = "image-store"
    """The node has lost a part of an image."""
    MISSING_PROGRAM = "missing-program"
    MISSING_OBJECT = "missing-object"
    """A Secret or ConfigMap, or one of its keys, does not exist."""
    OTHER = "other"


NODE_FAULTS = frozenset({RuntimeFault.DEVICE, RuntimeFault.DISK, RuntimeFault.IMAGE_STORE, RuntimeFault.OLD_DRIVER})
"""Faults of one node: the same server may start on another one."""

_RULES = tuple(
    (fault, tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns))
    for fault, *patterns in (
        # The name of the object may contain any word, such as the name of a tool.
        (RuntimeFault.MISSING_OBJECT, r"\b(?:secret|configmap)s? \"[^\"]{1,253}\" not found|couldn't find key"),
        # https://github.com/NVIDIA/nvidia-container-toolkit: a hook compares NVIDIA_REQUIRE_CUDA with the driver.
        (RuntimeFault.OLD_DRIVER, r"unsatisfied condition: (?:cuda|driver)\b|please update your driver"),
        # The image contains files of a driver, which the vendor's hook does not replace.
        (RuntimeFault.OTHER, r"mount error: file creation failed", r"file exists"),
        # A mount's place is inside of another mount, which is read-only.
        (RuntimeFault.OTHER, r"\b(?:create|make) mount ?point\b", r"read-only file system"),
        # The node's driver does not answer in time (driver rpc error: timed out). NVIDIA's GPU Operator calls the
        # program nvidia-container-cli.real.
        (RuntimeFault.DEVICE, r"nvidia-container-cli(?:\.real)?: (?:initialization|detection) error"),
        (RuntimeFault.OVERLOAD, r"deadline exceeded|timed out|context canceled|failed to reserve container name"),
        (
            RuntimeFault.DEVICE,
            r"nvidia-c(?:ontainer-|tk|di-hook)|libnvidia-|libcuda\.so|_nvidia\.so|unresolvable CDI device"
            r"|CDI device injection failed|failed to inject CDI|custom device \S{0,4}/dev/|stat \S{0,4}/dev/"
            r"|amd-container-|amd-ctk|running (?:\w{1,40} )?hook #\d",
        ),
        (
            RuntimeFault.DISK,
            r"error mounting|subPath|mount request|/var/lib/kubelet/pods/",
            r"no such file or directory|stale (?:NFS )?file handle|endpoint is not connected|input/output error"
            r"|host is down|read-only file system",
        ),
        # The node's own store of images, if the message names no disk of the server.
        (RuntimeFault.IMAGE_STORE, STORE_DAMAGE),
        # runc: exec: "PROGRAM": executable file not found in $PATH, or exec: "/PROGRAM": stat /PROGRAM: no such file or
        # directory. crun: executable file `PROGRAM` not found in $PATH, or open executable: No such file or directory.
        (
            RuntimeFault.MISSING_PROGRAM,
            r"executable file|open executable|not found in \$PATH|\bexec: \\{0,3}[\"`]|exec user process",
            r"not found|no such file or directory",
        ),
    )
)
"""Each fault with patterns, all of which the message must match; the first fault that matches counts."""


def classify_runtime_error(message: str) -> RuntimeFault:
    """Return why a container cannot be started; OTHER if the message contains no known cause.

    :param message: the message of the container's state ``waiting`` or ``terminated``, or of kubelet's event.
    """
    found = (fault for fault, patterns in _RULES if all(pattern.search(message) for pattern in patterns))
    return next(found, RuntimeFault.OTHER)


def format_runtime_fault(fault: RuntimeFault, image: str) -> str:
    """Return a sentence that says why a container cannot be started."""
    match fault:
        case RuntimeFault.OVERLOAD:
            return gettext("The node cannot prepare your server yet; it tries again.")
        case RuntimeFault.OLD_DRIVER:
            return gettext(
                "The GPU driver of the node is too old for the image {image}. Choose another image, or ask an admin.",
                image=image,
            )
        case RuntimeFault.DEVICE:
            return gettext("The GPU driver or a device of the node is out of order, so your server can't start there.")
        case RuntimeFault.DISK:
            return gettext(
                "A disk or file that your server needs is missing on the node, so your server can't start there."
            )
        case RuntimeFault.IMAGE_STORE:
            return gettext("The node's copy of the image {image} is damaged. The node tries again.", image=image)
        case RuntimeFault.MISSING_PROGRAM:
            return gettext("The image {image} does not hold the program that a server starts with.", image=image)
        case RuntimeFault.MISSING_OBJECT:
            return gettext("Something that the server is set up with is missing in the cluster.")
        case RuntimeFault.OTHER:
            return gettext("The node cannot start the server as it is set up.")
