"""Explain what would become of a choice: starts now, after a new node, waits, or never; why, and what fits instead.

Makes the pod that the hub would create for the choice, with the settings of your values, and says what kube-scheduler
would say to it, node by node. With --user the rules and limits of the settings are asked as well; what is in use is
counted from the pods that exist. Nothing is created.

The choice is given by its parts, or as the user options that a hub stores. Without a part, the settings' default holds.
With --manifest the pod is written as well: in a table's place as YAML whose comments hold the explanation.

examples:
  gpuspawner explain -f values.yaml --image pytorch --gpu a100-80gb --count 2
  gpuspawner explain -f values.yaml --gpu a100-80gb --cpu 8 --memory 64G --user ada --group physics
  gpuspawner explain -f values.yaml --user-options '{"gpu": "a100-80gb", "gpu_count": 1}' --output json
  gpuspawner explain -f values.yaml --user-options @options.json --as-hub -n jhub
  gpuspawner explain -f values.yaml --gpu t4 --manifest | kubectl create --dry-run=server -f -

exit codes: 0 it starts now, after a new node, or waits; 1 it never would, or is refused, or values are wrong; 3 that
cannot be told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import yaml

from gpuspawner.cli.cluster.looking import Onlooker, add_looking, looking
from gpuspawner.cli.common.exits import BAD, FAILED, OK
from gpuspawner.cli.common.output import Paint, add_output, columns, printable, write
from gpuspawner.cli.values.chart import configured, left_out
from gpuspawner.core.catalog.policy_rules import Person
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.options import from_query
from gpuspawner.core.verdict.verdict import Outcome
from gpuspawner.core.verdict.verdict_text import verdict_sentence

if TYPE_CHECKING:
    from gpuspawner.cli.explain.explanation import Explanation
    from gpuspawner.cli.explain.obstacle_text import NodeGroup


_PARTS = ("image", "gpu", "count", "cpu", "memory", "preset")
_NAMES_SHOWN = 4
_NOBODY = "user"
"""Whose pod is made where nobody is named."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    choice = parser.add_argument_group("the choice")
    choice.add_argument("--image", metavar="NAME", help="an image of the settings, or where they allow it a reference")
    choice.add_argument("--gpu", metavar="TYPE", help="a GPU type: see gpuspawner inventory; left out: no GPU")
    choice.add_argument("--count", metavar="N", help="how many GPUs (1)")
    choice.add_argument("--cpu", metavar="N", help="CPUs at most")
    choice.add_argument("--memory", metavar="SIZE", help="memory at most, such as 16G")
    choice.add_argument("--preset", metavar="NAME", help="a preset of the settings, with the other parts over it")
    choice.add_argument("--user-options", metavar="JSON", type=_options, help="instead of all that; @FILE reads a file")
    who = parser.add_argument_group("the person")
    who.add_argument("--user", metavar="NAME", help="ask what the settings allow this person")
    who.add_argument("--group", metavar="NAME", action="append", default=[], help="a group of that person; repeat it")
    add_looking(parser)
    parser.add_argument("--manifest", action="store_true", help="write the pod as well, as it would be created")
    add_output(parser)
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Explain a choice and write what was found."""
    if arguments.user_options is not None and any(getattr(arguments, part) is not None for part in _PARTS):
        arguments.usage_error("--user-options takes the place of the parts of a choice")
    if arguments.user == "":
        arguments.usage_error("--user needs a name")
    if arguments.group and arguments.user is None:
        arguments.usage_error("--group needs --user")
    return asyncio.run(_run(arguments, out=out))


async def _run(arguments: argparse.Namespace, *, out: TextIO) -> int:
    # JupyterHub takes seconds to load, which no other command is to wait for.
    from gpuspawner.cli.explain.explanation import Explanation, explain  # noqa: PLC0415 - loaded when used
    from gpuspawner.cli.explain.hubless import spawner_of  # noqa: PLC0415 - loaded when used

    person = Person(name=arguments.user or _NOBODY, groups=frozenset(arguments.group))
    async with looking(arguments) as onlooker:
        looked = await onlooker.look()
        images = looked.catalogue.images
        try:
            options = _asked(arguments, images)
        except SelectionError as error:
            found = Explanation(options={}, invalid=error.problems)
        else:
            async with spawner_of(onlooker, person) as spawner:
                found = await explain(spawner, options, offer=looked.offer, asks_policy=arguments.user is not None)
        notices = (*left_out(looked.values.chart), *_other_form(onlooker))
    document = {**found.document(manifest=arguments.manifest), "left_out": list(notices)}

    def table(paint: Paint) -> Iterator[str]:
        lines = _lines(found, notices, paint=paint)
        if not arguments.manifest:
            return lines
        return _with_manifest(_lines(found, notices, paint=Paint(is_on=False)), found.manifest)

    write(document, output=arguments.output, out=out, table=table)
    return _exit(found)


@dataclass(frozen=True, slots=True)
class _Given:
    """User options, which may be anything, even null."""

    value: object


def _options(text: str) -> _Given:
    """Read user options from an argument, or from the file that it names."""
    try:
        written = Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
        return _Given(json.loads(written))
    except (OSError, ValueError, RecursionError) as error:
        message = f"is no JSON that can be read: {error}"
        raise argparse.ArgumentTypeError(message) from error


def _asked(arguments: argparse.Namespace, images: Collection[str]) -> object:
    """Return the user options that were asked about.

    :param images: slugs; what else looks like a reference is taken for one.
    :raises SelectionError: a part cannot be understood.
    """
    if arguments.user_options is not None:
        return arguments.user_options.value
    given = {part: getattr(arguments, part) for part in _PARTS if getattr(arguments, part) is not None}
    if "count" in given:
        given["gpu_count"] = given.pop("count")
    image = given.get("image", "")
    if image not in images and ("/" in image or ":" in image):
        given["custom_image"] = given.pop("image")
    return from_query({part: [text] for part, text in given.items()})


def _other_form(onlooker: Onlooker) -> Iterator[str]:
    """Yield that people would be shown another form than gpuspawner's."""
    forms = ("profile_list", "options_form", "options_from_form")
    if onlooker.settings.is_empty and any(configured(onlooker.config, name) for name in forms):
        yield "There are no settings of gpuspawner beside a profile list or form: a hub would show that, not ask this."


def _exit(found: Explanation) -> int:
    if found.is_refused or found.outcome == Outcome.NEVER.value:
        return BAD
    return FAILED if found.outcome == Outcome.UNKNOWN.value else OK


def _lines(found: Explanation, notices: Iterable[str], *, paint: Paint) -> Iterator[str]:
    """Yield the explanation for people."""
    for problem in found.refused or ():
        yield paint.bad(f"Refused ({problem.code}): {printable(problem.message)}")
    if found.verdict is not None:
        sentence = printable(verdict_sentence(found.verdict))
        paints = _PAINTS[found.verdict.outcome]
        yield f"By the cluster alone: {sentence}" if found.refused else paints(paint, sentence)
    for problem in found.invalid:
        yield paint.bad(f"Not valid: {problem.field or 'options'}: {printable(problem.message)}")
    if profile := found.options.get("profile"):
        yield f"Choice: {printable(str(profile))}"
    if not found.invalid and not found.refused:
        yield "Policy: allowed." if found.refused is not None else "Policy: not asked, as nobody is named (--user)."
    if found.groups:
        yield ""
        yield from columns(map(_cells, found.groups), titles=("NODES", "TAKE IT NOW", "WHY NOT", "WHICH"), paint=paint)
    if found.nearest:
        yield ""
        yield paint.strong("What starts now instead")
        yield from (f"  {printable(str(each['profile']))}" for each in found.nearest)
    if found.verdict is not None:
        yield ""
        yield from (paint.faint(f"Note: {printable(each)}") for each in notices)


def _cells(group: NodeGroup) -> tuple[str, ...]:
    names = ", ".join(group.names[:_NAMES_SHOWN])
    more = len(group.names) - _NAMES_SHOWN
    which = f"{names} and {more} more" if more > 0 else names
    return str(len(group.names)), group.answer.value, "; ".join(group.why) or "-", which


def _with_manifest(lines: Iterable[str], manifest: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the lines as comments, and below them the pod."""
    yield from (f"# {line}".rstrip() for line in lines)
    if manifest is not None:
        yield yaml.safe_dump(dict(manifest), sort_keys=False, allow_unicode=True, width=100).rstrip("\n")


_PAINTS: Mapping[Outcome, Callable[[Paint, str], str]] = {
    Outcome.NOW: Paint.good,
    Outcome.AFTER_SCALE_UP: Paint.good,
    Outcome.WAITS: Paint.doubtful,
    Outcome.NEVER: Paint.bad,
    Outcome.UNKNOWN: Paint.doubtful,
}
