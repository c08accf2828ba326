from __future__ import annotations

from pathlib import Path

from devcluster.gpu_faults import absent, is_absent, is_unhealthy, unhealthy
from devcluster.gpus import AMD, NVIDIA, GPUKind


def broken(devices: Path, kind: GPUKind) -> list[int]:
    return [number for number in kind.numbers if is_unhealthy(devices, kind, number=number)]


def test_gpus_are_broken_inside_the_block_alone(tmp_path: Path) -> None:
    with unhealthy(tmp_path, NVIDIA, numbers=[1, 3]):
        inside = broken(tmp_path, NVIDIA)

    assert (inside, broken(tmp_path, NVIDIA)) == ([1, 3], [])


def test_without_numbers_all_of_a_kind_are_broken_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "dri").mkdir()
    with unhealthy(tmp_path, AMD):
        assert (broken(tmp_path, AMD), broken(tmp_path, NVIDIA)) == ([128, 129], [])


def test_the_plugin_is_absent_inside_the_block_alone(tmp_path: Path) -> None:
    with absent(tmp_path):
        inside = is_absent(tmp_path)

    assert (inside, is_absent(tmp_path)) == (True, False)
