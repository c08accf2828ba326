"""Every code that doctor may say stands on its page, and no other."""

from __future__ import annotations

import re

from gpuspawner.cli.doctor.hub_health import LOSSES
from tests.docs.support.pages import ROOT

RULES = ROOT / "gpuspawner" / "cli" / "doctor"
WRITTEN = re.compile(r'\bcode="([a-z-]+)"|_Advice\(\s*DiagnosisSeverity\.[A-Z]+, "([a-z-]+)"')
NO_FINDINGS = {"unreadable"}


def test_every_code_is_on_the_page():
    written = {one or other for file in RULES.glob("*.py") for one, other in WRITTEN.findall(file.read_text())}
    expected = written - NO_FINDINGS | {f"rights-{part}" for part in LOSSES}
    assert re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/doctor.md").read_text(), re.MULTILINE) == sorted(expected)
