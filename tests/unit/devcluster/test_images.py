from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import images


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("GPUSPAWNER_CACHE_DIR", str(tmp_path / "cache"))
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"a program")
    return {path.stem: path for path in images.archives(busybox)}


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
