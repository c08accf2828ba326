"""The repository's files: nothing of one machine, nothing large, and a README that leads in."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

MAX_BYTES = 300_000
# Checksums of Go modules name the modules' own hosts, not registries, and nothing else.
NOT_READ = {".png", ".jpg", ".ico", ".woff2"}
# Written in pieces: this file is searched as well.
REGISTRY_HOSTS = [
    ".".join(pieces)
    for pieces in [
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("deb", "debian", "org"),
    ]
]


def machine_paths(root: Path) -> list[str]:
    """List the beginnings of paths that exist on this machine only."""
    return [f"{folder}/" for folder in {root, Path.home(), Path("/") / "root"} if folder != Path("/")]


def lines_with(text: str, needles: list[str]) -> list[str]:
    """List the lines of ``text`` that hold one of ``needles`` as a word of its own."""
    pattern = re.compile("|".join(rf"(?<![\w.-]){re.escape(needle)}" for needle in needles))
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def _texts(files: frozenset[Path]) -> dict[Path, str]:
    return {file: file.read_text() for file in files if file.suffix not in NOT_READ}


def test_no_file_names_a_path_of_one_machine(tracked_files: frozenset[Path], root: Path):
    found = {str(file): lines_with(text, machine_paths(root)) for file, text in _texts(tracked_files).items()}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_no_file_names_the_host_of_a_package_registry(tracked_files: frozenset[Path]):
    found = {str(file): lines_with(text, REGISTRY_HOSTS) for file, text in _texts(tracked_files).items()}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_no_file_is_large(tracked_files: frozenset[Path], root: Path):
    sizes = {str(file.relative_to(root)): file.stat().st_size for file in tracked_files}
    assert {file: size for file, size in sizes.items() if size > MAX_BYTES} == {}


def test_no_code_promises_to_be_finished_later(tracked_files: frozenset[Path], root: Path):
    promises = ["TO" + "DO", "FIX" + "ME", "X" + "XX"]
    found = {
        str(file.relative_to(root)): lines_with(text, promises)
        for file, text in _texts(tracked_files).items()
        if file.suffix in {".py", ".js", ".html", ".css"}
    }
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_continuous_integration_runs_the_commands_of_the_readme(root: Path):
    lines = (root / ".ci/run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make ")] == ["make test", "make test-rest"]


def test_the_code_hosts_workflow_may_only_read_and_runs_no_action_that_can_change(root: Path):
    (workflow,) = (root / ".github/workflows").iterdir()
    text = workflow.read_text()
    actions = re.findall(r"uses: (.*)", text)
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert [each for each in actions if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v[\d.]+", each)] == []
    assert (text.count("permissions:"), "secrets" in text) == (1, False)
