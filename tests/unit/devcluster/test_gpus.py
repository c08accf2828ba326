from __future__ import annotations

from pathlib import Path

from devcluster import gpus


def test_the_labels_count_the_devices_that_are_offered() -> None:
    # One card more than whole ones: the card that is cut into slices counts too (mixed MIG strategy).
    assert gpus.LABELS["nvidia.com/gpu.count"] == str(gpus.NVIDIA.count + 1)
    assert gpus.LABELS["nvidia.com/mig-1g.5gb.count"] == str(gpus.MIG.count)
    assert gpus.LABELS[f"beta.amd.com/gpu.vram.{gpus.LABELS['amd.com/gpu.vram']}"] == str(gpus.AMD.count)


def test_no_two_gpus_share_an_identifier_or_a_path() -> None:
    each = [(kind, number) for kind in gpus.KINDS for number in kind.numbers]
    assert len({kind.device_id(number) for kind, number in each}) == 13
    assert len({kind.device_file(Path("/run"), number) for kind, number in each}) == 13


def test_a_device_file_lies_in_the_private_folder() -> None:
    assert gpus.MIG.device_file(Path("/run/x"), 3) == Path("/run/x/nvidia-caps/nvidia-cap3")


def test_kubernetes_takes_the_labels() -> None:
    assert all(len(value) <= 63 and value.replace(".", "").replace("-", "").replace("_", "").isalnum()
               for value in gpus.LABELS.values())  # fmt: skip
