from __future__ import annotations

import io

import pytest

from devcluster.preparation.progress import Progress, clock


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (7.9, "0:07"), (61, "1:01"), (3600, "60:00")])
def test_a_duration_reads_like_a_clock(seconds: float, text: str):
    assert clock(seconds) == text


def test_a_log_gets_whole_lines_without_control_characters():
    stream = io.StringIO()
    progress = Progress(stream, dict)
    progress.start()
    progress.line("done")
    progress.stop()
    assert stream.getvalue() == "done\n"
