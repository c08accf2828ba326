from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from devcluster.preparation.runner import Runner, Step, StepFailedError

ROOT = Path(__file__).resolve().parents[4]


def step(name: str, *commands: Sequence[str], finished: list[str] | None = None) -> Step:
    done = [] if finished is None else finished
    return Step(
        name=name,
        what=f"what {name} brings",
        is_done=lambda: False,
        commands=lambda: commands,
        finish=lambda: done.append(name),
    )


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path, tmp_path / "logs")


def test_chains_run_side_by_side(runner: Runner, tmp_path: Path):
    # Each end of a pipe waits for the other: one after the other they would never end.
    os.mkfifo(tmp_path / "pipe")
    runner.run([[step("writer", shell("echo hello > pipe"))], [step("reader", shell("read line < pipe"))]])
    assert (tmp_path / "logs/reader.log").exists()


def test_a_failed_step_does_not_finish(runner: Runner):
    finished: list[str] = []
    with pytest.raises(StepFailedError):
        runner.run([[step("bad", shell("exit 3"), finished=finished), step("next", shell("true"), finished=finished)]])
    assert finished == []


def test_a_failure_shows_the_command_its_status_and_the_end_of_its_output(runner: Runner):
    with pytest.raises(StepFailedError) as caught:
        runner.run([[step("bad", shell("seq 100; echo the reason; exit 3"))]])
    message, tail = str(caught.value), caught.value.tail()
    assert "ended with status 3" in message
    assert tail.endswith("    the reason")
    assert "    50\n" not in tail


def test_a_failure_ends_the_other_chains(runner: Runner):
    with pytest.raises(StepFailedError) as caught:
        runner.run([[step("bad", shell("exit 3"))], [step("endless", shell("sleep 1000"))]])
    assert str(caught.value).startswith("bad:")


def test_commands_run_without_variables_that_point_elsewhere(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    runner.run([[step("env", ["env"])]])
    names = {line.partition("=")[0] for line in (tmp_path / "logs/env.log").read_text().splitlines()}
    assert names & {"PYTHONPATH", "PIP_TARGET", "HTTPS_PROXY"} == {"HTTPS_PROXY"}


def test_ctrl_c_ends_the_commands_and_their_children(tmp_path: Path):
    script = textwrap.dedent(
        """
        import signal
        import sys
        from pathlib import Path
        from devcluster.preparation.runner import Runner, Step
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
        command = ["sh", "-c", "sleep 1000 & echo $! > child; echo started > started; wait"]
        endless = Step(name="endless", what="", is_done=lambda: False, commands=lambda: [command])
        try:
            Runner(Path(sys.argv[1]), Path(sys.argv[1])).run([[endless]])
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    os.mkfifo(tmp_path / "started")
    arguments = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        (tmp_path / "started").read_text()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=25)
    child = int((tmp_path / "child").read_text())
    assert "interrupted" in output
    assert not is_running(child)


def is_running(pid: int) -> bool:
    """Return whether the process is there and not a zombie that its parent has yet to collect."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"
