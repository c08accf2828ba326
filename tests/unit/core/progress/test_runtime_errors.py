"""Whose fault it is that a container cannot be started, in the words of containerd, CRI-O, runc, crun and NVIDIA."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.progress.runtime_errors import RuntimeFault, classify_runtime_error

SHIM = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
RUNC = f"{SHIM}runc create failed: unable to start container process: "
HOOK = (
    f"{RUNC}error during container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: "
)
CLI = f"{HOOK}Auto-detected mode as 'legacy'\nnvidia-container-cli: "


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        pytest.param(
            f"{CLI}initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no"
            " such file or directory: unknown",
            "device",
            id="no driver library",
        ),
        pytest.param(
            f"{CLI}initialization error: nvml error: driver/library version mismatch: unknown",
            "device",
            id="driver and library of two versions",
        ),
        pytest.param(
            f"{RUNC}error running createContainer hook #5: exit status 3, stdout: , stderr:"
            " No help topic for 'disable-device-node-modification': unknown",
            "device",
            id="a hook of CDI and a toolkit of two versions",
        ),
        pytest.param(f"{CLI}initialization error: nvml error: driver not loaded: unknown", "device", id="not loaded"),
        pytest.param(f"{CLI}initialization error: driver rpc error: timed out: unknown", "device", id="no answer"),
        pytest.param(
            f"{HOOK}nvidia-container-cli.real: initialization error: driver rpc error: timed out: unknown",
            "device",
            id="no answer, with the GPU Operator",
        ),
        pytest.param(f"{CLI}detection error: driver rpc error: timed out: unknown", "device", id="no answer later"),
        pytest.param(f"{CLI}device error: GPU-1b2c: unknown device: unknown", "device", id="a GPU that is gone"),
        pytest.param(
            f"{CLI}ldcache error: open failed: /sbin/ldconfig.real: no such file or directory: unknown",
            "device",
            id="no ldconfig",
        ),
        pytest.param(
            "failed to fulfil mount request: open /usr/lib/x86_64-linux-gnu/libEGL_nvidia.so.535.54.03: no such file or"
            " directory: unknown",
            "device",
            id="a file of CDI",
        ),
        pytest.param(
            "crun: cannot stat `/usr/lib64/libEGL_nvidia.so.550.54.15`: No such file or directory: OCI runtime"
            " attempted to invoke a command that was not found",
            "device",
            id="a file of CDI, with crun",
        ),
        pytest.param(
            f"{SHIM}could not apply required modification to OCI specification: error modifying OCI spec: failed to"
            " inject CDI devices: unresolvable CDI devices management.nvidia.com/gpu=GPU-1b2c",
            "device",
            id="an unknown device of CDI",
        ),
        pytest.param(
            "failed to create containerd container: CDI device injection failed: unresolvable CDI devices"
            " k8s.gpu.nvidia.com/device=gpu-1",
            "device",
            id="an unknown device of a DRA driver",
        ),
        pytest.param(
            'error gathering device information while adding custom device "/dev/nvidia3": no such file or directory',
            "device",
            id="no device file, with Docker",
        ),
        pytest.param(
            'failed to generate container "3f" spec: failed to apply OCI options: lstat /dev/kfd: no such file or'
            " directory",
            "device",
            id="no device file, with containerd",
        ),
        pytest.param(
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to"
            " retrieve OCI runtime error (open /run/containerd/io.containerd.runtime.v2.task/k8s.io/3f/log.json: no"
            " such file or directory): fork/exec /usr/bin/nvidia-container-runtime: no such file or directory: unknown",
            "device",
            id="no runtime of NVIDIA",
        ),
        pytest.param(
            'exec: "nvidia-container-runtime-hook": executable file not found in $PATH',
            "device",
            id="no hook of NVIDIA",
        ),
        pytest.param(
            f"{CLI}requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version,"
            " or use an earlier cuda container: unknown",
            "old-driver",
            id="old driver",
        ),
        pytest.param(
            f"{CLI}mount error: file creation failed: /run/rootfs/usr/lib/libcuda.so.1: file exists: unknown",
            "other",
            id="an image with files of a driver",
        ),
        pytest.param(
            f'{RUNC}error mounting "/var/lib/kubelet/pods/1/volume-subpaths/home/notebook/0" to rootfs at'
            ' "/home/jovyan/x": no such file or directory: unknown',
            "disk",
            id="a subPath that is gone",
        ),
        pytest.param(
            'failed to prepare subPath for volumeMount "home" of container "notebook"', "other", id="a subPath, unnamed"
        ),
        pytest.param(
            'failed to create subPath directory for volumeMount "home" of container "notebook": mkdir'
            " /var/lib/kubelet/pods/1/volumes/x: stale NFS file handle",
            "disk",
            id="a stale handle",
        ),
        pytest.param(
            "stat /var/lib/kubelet/pods/1/volumes/kubernetes.io~secret/home: transport endpoint is not connected",
            "disk",
            id="a FUSE mount that has ended",
        ),
        pytest.param(
            f'{RUNC}error mounting "/var/lib/kubelet/pods/1/volumes/home" to rootfs at "/home/jovyan":'
            " input/output error: unknown",
            "disk",
            id="a faulty disk of a volume",
        ),
        pytest.param(
            'failed to prepare subPath for volumeMount "home" of container "notebook": mkdir'
            " /var/lib/kubelet/pods/1/volumes/x: read-only file system",
            "disk",
            id="a disk that became read-only",
        ),
        pytest.param(
            f'{RUNC}error mounting "/var/lib/kubelet/pods/1/volumes/kubernetes.io~secret/x" to rootfs at "/data/x":'
            ' create mountpoint for /data/x mount: make mountpoint "/data/x": mkdirat rootfs/data/x: read-only file'
            " system: unknown",
            "other",
            id="a mount inside of a read-only mount",
        ),
        pytest.param(
            "failed to create containerd container: mkdir /var/lib/containerd/snapshots/7: input/output error",
            "image-store",
            id="a faulty disk of the image store",
        ),
        pytest.param(
            f'{RUNC}error mounting "/x" to rootfs at "/y": not a directory: unknown: Are you trying to mount a'
            " directory onto a file (or vice-versa)?",
            "other",
            id="a file as a folder",
        ),
        pytest.param(
            f'{RUNC}exec: "jupyterhub-singleuser": executable file not found in $PATH: unknown',
            "missing-program",
            id="runc",
        ),
        pytest.param(
            f'{RUNC}error during container init: exec: "/opt/nvidia/start.sh": stat /opt/nvidia/start.sh: no such file'
            " or directory: unknown",
            "missing-program",
            id="runc, with a path",
        ),
        pytest.param(
            'Container creation error: "runc create failed: unable to start container process: exec: \\"/x\\": stat /x:'
            ' no such file or directory"',
            "missing-program",
            id="runc in CRI-O",
        ),
        pytest.param(
            "crun: executable file `jupyterhub-singleuser` not found in $PATH: No such file or directory: OCI runtime"
            " attempted to invoke a command that was not found",
            "missing-program",
            id="crun",
        ),
        pytest.param("crun: open executable: No such file or directory", "missing-program", id="crun, with a path"),
        pytest.param(
            "standard_init_linux.go:228: exec user process caused: no such file or directory",
            "missing-program",
            id="a script without its interpreter",
        ),
        pytest.param(f'{RUNC}exec: "/x": permission denied: unknown', "other", id="a program without rights"),
        pytest.param(
            f'{RUNC}chdir to cwd ("/home/ada") set in config.json failed: no such file or directory: unknown',
            "other",
            id="a folder that is missing",
        ),
        pytest.param('secret "tokens" not found', "missing-object", id="Secret"),
        pytest.param("couldn't find key TOKEN in Secret hub/tokens", "missing-object", id="key of a Secret"),
        pytest.param('configmap "x" not found', "missing-object", id="ConfigMap"),
        pytest.param(
            'secret "nvidia-container-settings" not found', "missing-object", id="Secret with a name of NVIDIA"
        ),
        pytest.param(
            'MountVolume.SetUp failed for volume "x": configmap "nvidia-ctk" not found',
            "missing-object",
            id="ConfigMap with a name of NVIDIA",
        ),
        pytest.param("context deadline exceeded", "overload", id="overload"),
        pytest.param(
            "failed to create containerd container: error unpacking image: failed to resolve rootfs: content digest"
            " sha256:0c18: not found",
            "image-store",
            id="image store",
        ),
        pytest.param("no such file or directory", "other", id="unnamed file"),
        pytest.param("", "other", id="nothing"),
    ],
)
def test_why_a_container_cannot_be_started_is_read(message: str, fault: str):
    assert classify_runtime_error(message) is RuntimeFault(fault)


@given(st.text())
def test_any_text_is_read(message: str):
    assert classify_runtime_error(message) in RuntimeFault
