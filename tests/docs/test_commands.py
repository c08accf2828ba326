"""Every command of ours that a page names is one that the program, or make, has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from docsite.markdown import blocks, code_spans
from gpuspawner.cli.main import make_parser
from tests.docs.support.pages import PAGES, ROOT

SHELLS = {"console", "bash", "sh", "shell"}
TARGETS = frozenset(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def calls(text: str, program: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of a program in lines of a shell."""
    for line in text.replace("\\\n", " ").splitlines():
        for command in re.split(r"\|\|?|&&|;", re.sub(r"[0-9&]?>>?\s*\S+", " ", line)):
            words = shlex.split(command.removeprefix("$").strip(), comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                words = words[1:]
            if words and words[0].rpartition("/")[2] == program:
                yield words[1:]


def texts() -> Iterator[tuple[str, str]]:
    """Yield what is meant for a shell, with where it is: blocks, indented lines, and short pieces in the text."""
    for page in PAGES:
        name, text = str(page.relative_to(ROOT)), page.read_text()
        for block in blocks(text):
            if block.language in SHELLS:
                yield f"{name}:{block.line}", block.text
        for span in code_spans(text):
            if not re.search(r"…|[A-Z]{4,}(?!=)|\.\.\.", span):
                yield name, span
        yield from ((name, line) for line in re.findall(r"^    (?! )(.+)$", text, re.MULTILINE) if "`" not in line)


def found(program: str) -> list[object]:
    return [
        pytest.param(arguments, id=f"{name}-{' '.join(arguments)}")
        for name, text in texts()
        if program in text
        for arguments in calls(text, program)
    ]


@pytest.mark.parametrize("arguments", found("gpuspawner"))
def test_the_program_takes_a_call(arguments: list[str]):
    if len(arguments) > 1:
        make_parser().parse_args(arguments)
    else:  # a command named alone stands for the command, not for a call of it
        with pytest.raises(SystemExit, match="0"):
            make_parser().parse_args([*arguments, "--help"])


@pytest.mark.parametrize("arguments", found("make"))
def test_make_has_a_target(arguments: list[str]):
    assert {word for word in arguments if "=" not in word and not word.startswith("-")} <= TARGETS


UPGRADES = [
    pytest.param(line.split(), id=f"{page.relative_to(ROOT)}:{block.line}")
    for page in PAGES
    for block in blocks(page.read_text())
    if block.language in SHELLS
    for line in block.text.replace("\\\n", " ").splitlines()
    if re.match(r"\$ helm upgrade .*\bjupyterhub --repo", line)
]


@pytest.mark.parametrize("words", UPGRADES)
def test_an_upgrade_of_the_chart_waits_for_its_image_pullers_and_reuses_no_values(words: list[str]):
    # Helm waits 5 min for a hook, and ignores the new chart's default values with --reuse-values.
    assert ("--timeout" in words, "--reuse-values" in words) == (True, False)


def test_there_are_calls_in_the_pages():
    assert len(UPGRADES) >= 6
    assert len(found("gpuspawner")) >= 5
    assert len(found("make")) >= 10
