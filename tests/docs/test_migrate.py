"""The tutorial of a migration: its commands are run, in its order, and its outputs are what they print.

`make docs` writes the outputs of today into the page, as ``.venv/bin/python -m tests.docs.test_migrate`` does.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpuspawner.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs/migrate.md"
FILE = re.compile(r'^```yaml title="(?P<name>[\w.-]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
RUN = re.compile(
    r"^```console\n(?P<commands>[^`]*?)^```\n\n<!-- output -->\n```text\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass
class Shell:
    """The page's shell: the program, the status of the last command, and output into files."""

    folder: Path
    status: int = 0
    printed: list[str] = field(default_factory=list)

    def run(self, line: str) -> None:
        command, _, target = line.partition(" > ")
        program, *arguments = shlex.split(command)
        if (program, arguments) == ("echo", ["$?"]):
            self.printed.append(f"{self.status}\n")
            return
        assert program == "gpuspawner"
        out, notes = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(notes):
            self.status = main(arguments)
        if target:
            (self.folder / target).write_text(out.getvalue())
            out = io.StringIO()
        self.printed.append(out.getvalue() + notes.getvalue())


def outputs(page: str, folder: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each place of an output, and what its commands print."""
    for file in FILE.finditer(page):
        (folder / file["name"]).write_text(file["text"])
    for place in RUN.finditer(page):
        shell = Shell(folder)
        for line in place["commands"].replace("\\\n", " ").splitlines():
            shell.run(line.removeprefix("$ "))
        yield place, "".join(line.rstrip() + "\n" for text in shell.printed for line in text.splitlines())


def rewrite(page: str, folder: Path) -> str:
    """Return a page with the outputs of today."""
    for place, printed in list(outputs(page, folder)):
        page = page.replace(place[0], place[0].replace(f"```text\n{place['output']}```", f"```text\n{printed}```"))
    return page


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    found = outputs(PAGE.read_text(), tmp_path_factory.mktemp("migrate"))
    return [(place["commands"], output) for place, output in found]


def test_the_outputs_are_those_of_the_commands(printed: list[tuple[str, str]]):
    assert [(place["commands"], place["output"]) for place in RUN.finditer(PAGE.read_text())] == printed


def test_the_page_shows_each_exit_status_that_has_a_result(printed: list[tuple[str, str]]):
    assert {output.splitlines()[-1] for _, output in printed} == {"0", "4", "5"}


def test_only_outputs_are_written_anew(tmp_path: Path):
    page = "Text.\n\n```console\n$ echo $?\n```\n\n<!-- output -->\n```text\n7\n```\n"
    assert rewrite(page, tmp_path) == page.replace("\n7\n", "\n0\n")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        PAGE.write_text(rewrite(PAGE.read_text(), Path(folder)))
