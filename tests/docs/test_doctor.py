"""Every code that doctor may say stands on its page, and no other."""

from __future__ import annotations

import re

from gpuspawner.cli.doctor.diagnosis import load_rows
from gpuspawner.cli.doctor.hub_health import read_losses
from tests.docs.support.pages import ROOT


def test_every_code_is_on_the_page():
    written = {row.partition("/")[0] for row in load_rows()}
    expected = written - {"rights"} | {f"rights-{part}" for part in read_losses()}
    assert re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/doctor.md").read_text(), re.MULTILINE) == sorted(expected)
