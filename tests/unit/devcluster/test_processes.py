from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.processes import Process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def of(process: subprocess.Popen[bytes]) -> Process:
    found = Process.of(process.pid)
    assert found is not None
    return found


def test_a_pid_file_names_the_same_process_again(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    of(sleeper).save(tmp_path / "pid")
    assert of(sleeper) == Process.load(tmp_path / "pid")


@pytest.mark.parametrize("text", ["", "12", "12 x boot", "12 34"])
def test_a_broken_pid_file_names_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    assert Process.load(tmp_path / "pid") is None


def test_a_missing_pid_file_names_no_process(tmp_path: Path) -> None:
    assert Process.load(tmp_path / "pid") is None


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_another_process_with_the_same_pid_is_not_killed(
    sleeper: subprocess.Popen[bytes], change: dict[str, int | str]
) -> None:
    earlier = dataclasses.replace(of(sleeper), **change)
    assert (earlier.alive(), earlier.kill(), sleeper.poll()) == (False, False, None)


def test_a_killed_process_has_ended_even_before_its_parent_notices(sleeper: subprocess.Popen[bytes]) -> None:
    process = of(sleeper)
    assert process.kill()
    assert process.wait(5)
    assert (process.alive(), Process.of(sleeper.pid)) == (False, None)


def test_a_program_name_with_brackets_and_spaces_does_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        started = of(process).started
        process.kill()
    assert started > Process.of(1).started  # type: ignore[union-attr]
