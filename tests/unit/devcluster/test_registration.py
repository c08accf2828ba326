from __future__ import annotations

import datetime
from pathlib import Path

from devcluster import registration


def test_without_a_kubelet_there_is_nothing_to_register_with(tmp_path: Path) -> None:
    assert registration.kubelet_identity(tmp_path) == ""


def test_a_kubelet_that_starts_again_is_another_one(tmp_path: Path) -> None:
    socket = tmp_path / "kubelet.sock"
    socket.touch()
    before = registration.kubelet_identity(tmp_path)
    (tmp_path / "new").touch()  # holds an inode of its own, so the second socket cannot have the first one's
    (tmp_path / "new").replace(socket)
    assert before not in ("", registration.kubelet_identity(tmp_path))


def test_nothing_is_noted_before_the_first_registration(tmp_path: Path) -> None:
    assert registration.noted(tmp_path) == ""


def test_the_last_registration_is_noted_with_its_time(tmp_path: Path) -> None:
    registration.note(tmp_path, "1 2")
    registration.note(tmp_path, "3 4")
    age = datetime.datetime.now(datetime.UTC) - registration.noted_at(tmp_path)
    assert registration.noted(tmp_path) == "3 4"
    assert age < datetime.timedelta(minutes=1)
