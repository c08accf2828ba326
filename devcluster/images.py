"""Container images without a registry: archives made by hand, of busybox and a few files.

Both images are the ones `docker save` would write: one layer, a configuration, a manifest. They take their programs
from the host's statically linked busybox, and the notebook image the rest from read-only mounts of the host's /usr and
of the virtual environment (see devcluster.notebook), so that a notebook runs exactly what is under test.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path

from devcluster.run_dir import cache_dir

PAUSE_IMAGE = "localhost/devcluster/pause:1"
NOTEBOOK_IMAGE = "localhost/devcluster/notebook:1"

_APPLETS = """
awk basename cat chmod chown cp cut date dd df dirname echo env expr false find free grep head hostname id ip kill ln ls
mkdir mknod mktemp more mv nc nproc od printf ps pwd readlink rm rmdir sed seq sh sleep sort stat stty tail tee test
timeout top touch tr true tty uname uniq vi wc wget which whoami xargs yes
"""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

_ACCOUNTS = """\
root:x:0:0:root:/root:/bin/sh
jovyan:x:1000:100:jovyan:/home/jovyan:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
"""
_GROUPS = """\
root:x:0:
users:x:100:jovyan
nogroup:x:65534:
"""

_DEMO_PROGRAMS = Path(__file__).with_name("programs")
# The first process of a container gets no signal it has no handler for, so plain `sleep` would not end on SIGTERM.
_FOREVER = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; sleep 2147483647 & wait")


class _Layer:
    """A file tree as a tar archive, equal bytes for equal content."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)

    def folder(self, name: str, *, mode: int = 0o755, uid: int = 0) -> None:
        self._add(name, tarfile.DIRTYPE, mode=mode, uid=uid)

    def file(self, name: str, content: bytes, *, mode: int = 0o644) -> None:
        self._add(name, tarfile.REGTYPE, mode=mode, content=content)

    def link(self, name: str, target: str) -> None:
        self._add(name, tarfile.SYMTYPE, mode=0o777, target=target)

    def finish(self) -> bytes:
        self._tar.close()
        return self._buffer.getvalue()

    def _add(self, name: str, kind: bytes, *, mode: int, uid: int = 0, content: bytes = b"", target: str = "") -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.size, info.linkname = kind, mode, len(content), target
        info.uid, info.gid = uid, 100 if uid else 0
        self._tar.addfile(info, io.BytesIO(content))


def _base(busybox: Path) -> _Layer:
    layer = _Layer()
    for name in ("bin", "dev", "etc", "proc", "root", "sys"):
        layer.folder(name)
    layer.folder("tmp", mode=0o1777)
    layer.file("bin/busybox", busybox.read_bytes(), mode=0o755)
    for applet in _APPLETS.split():
        layer.link(f"bin/{applet}", "busybox")
    layer.file("etc/passwd", _ACCOUNTS.encode())
    layer.file("etc/group", _GROUPS.encode())
    return layer


def _notebook(busybox: Path) -> bytes:
    layer = _base(busybox)
    for name in ("etc/ssl", "home", "lib", "lib64", "mnt", "opt", "opt/demo", "opt/demo/bin", "run", "usr", "var"):
        layer.folder(name)
    layer.folder("home/jovyan", uid=1000)
    layer.folder("var/tmp", mode=0o1777)
    layer.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    for program in sorted(_DEMO_PROGRAMS.iterdir()):
        layer.file(f"opt/demo/bin/{program.name}", program.read_bytes(), mode=0o755)
    layer.link("opt/demo/bin/rocm-smi", "nvidia-smi")
    return layer.finish()


def _archive(reference: str, layer: bytes, *, config: Mapping[str, object]) -> bytes:
    digest = hashlib.sha256(layer).hexdigest()
    image = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "devcluster"}],
    }
    config_bytes = json.dumps(image).encode()
    config_name = f"{hashlib.sha256(config_bytes).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": [f"{digest}/layer.tar"]}]
    outer = _Layer()
    outer.file(config_name, config_bytes)
    outer.file(f"{digest}/layer.tar", layer)
    outer.file("manifest.json", json.dumps(manifest).encode())
    return outer.finish()


def archives(busybox: Path) -> tuple[Path, ...]:
    """Return the image archives, made anew when busybox or this module's content has changed."""
    source = hashlib.sha256(busybox.read_bytes() + Path(__file__).read_bytes())
    for program in sorted(_DEMO_PROGRAMS.iterdir()):
        source.update(program.read_bytes())
    folder = cache_dir() / "images" / source.hexdigest()[:16]
    paths = (folder / "pause.tar", folder / "notebook.tar")
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, (_pause_archive(busybox), _notebook_archive(busybox)), strict=True):
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(content)
            part.replace(path)
    return paths


def _pause_archive(busybox: Path) -> bytes:
    return _archive(PAUSE_IMAGE, _base(busybox).finish(), config={"Cmd": list(_FOREVER)})


def _notebook_archive(busybox: Path) -> bytes:
    # Cmd, not Entrypoint: KubeSpawner puts its command into `args`.
    config = {
        "Cmd": list(_FOREVER),
        "Env": ["PATH=/opt/demo/bin:/usr/local/bin:/usr/bin:/bin", "HOME=/home/jovyan", "LANG=C.UTF-8"],
        "WorkingDir": "/home/jovyan",
    }
    return _archive(NOTEBOOK_IMAGE, _notebook(busybox), config=config)
