from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from devcluster import images


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("GPUSPAWNER_CACHE_DIR", str(tmp_path / "cache"))
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"a program")
    return {path.stem: path for path in images.archives(busybox)}


def layer(archive: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(archive) as outer:
        manifest = json.load(outer.extractfile("manifest.json"))  # type: ignore[arg-type]
        content = outer.extractfile(manifest[0]["Layers"][0]).read()  # type: ignore[union-attr]
    with tarfile.open(fileobj=io.BytesIO(content)) as inner:
        return {member.name: member for member in inner}


def configuration(archive: Path) -> dict[str, object]:
    with tarfile.open(archive) as outer:
        manifest = json.load(outer.extractfile("manifest.json"))  # type: ignore[arg-type]
        document = json.load(outer.extractfile(manifest[0]["Config"]))  # type: ignore[arg-type]
    return {"tags": manifest[0]["RepoTags"], **document["config"]}


def test_the_archives_bear_the_names_that_pods_use(archives: dict[str, Path]) -> None:
    assert configuration(archives["pause"])["tags"] == [images.PAUSE_IMAGE]
    assert configuration(archives["notebook"])["tags"] == [images.NOTEBOOK_IMAGE]


def test_a_user_may_write_where_users_write(archives: dict[str, Path]) -> None:
    members = layer(archives["notebook"])
    assert (members["tmp"].mode, members["home/jovyan"].uid) == (0o1777, 1000)


def test_mount_points_are_folders(archives: dict[str, Path]) -> None:
    members = layer(archives["notebook"])
    assert all(members[name].isdir() for name in ("usr", "lib", "lib64", "etc/ssl"))


def test_the_stand_in_comes_before_the_hosts_nvidia_smi(archives: dict[str, Path]) -> None:
    member = layer(archives["notebook"])["opt/demo/bin/nvidia-smi"]
    search = configuration(archives["notebook"])["Env"]
    assert member.mode == 0o755
    assert layer(archives["notebook"])["opt/demo/bin/rocm-smi"].linkname == "nvidia-smi"
    assert isinstance(search, list)
    assert search[0].startswith("PATH=/opt/demo/bin:")


def test_a_new_busybox_makes_new_archives(
    archives: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "busybox").write_bytes(b"another program")
    assert set(images.archives(tmp_path / "busybox")).isdisjoint(archives.values())


def test_equal_content_makes_equal_archives(archives: dict[str, Path], tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in archives.values()}
    for path in before:
        path.unlink()
    assert before == {path: path.read_bytes() for path in images.archives(tmp_path / "busybox")}
