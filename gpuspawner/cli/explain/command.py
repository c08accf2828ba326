"""Explain whether a server with one choice of options starts now, after a new node, later or never; why; alternatives.

The program builds the pod that the hub would create for the choice with the settings of your values, and predicts for
each node whether kube-scheduler would accept the pod. With --user it also applies the user's rules and limits, and
counts what the user's existing pods use. It creates nothing.

Describe the choice by options such as --gpu, or as the user options that a hub stores. A missing option has the
default of the settings. For a profile_list, name a profile and the choices in its options.
With --manifest the output includes the pod; the table then becomes comments of the pod's YAML.

examples:
  gpuspawner explain -f values.yaml --image pytorch --gpu a100-80gb --count 2
  gpuspawner explain -f values.yaml --gpu a100-80gb --cpu 8 --memory 64G --user ada --group physics
  gpuspawner explain -f values.yaml --preset gpu-small --user ada --group tutors
  gpuspawner explain -f values.yaml --profile gpu --option image=pytorch
  gpuspawner explain -f values.yaml --user-options '{"gpu": "a100-80gb", "gpu_count": 1}' --output json
  gpuspawner explain -f values.yaml --user-options @options.json --as-hub -n jhub
  gpuspawner explain -f values.yaml --gpu t4 --manifest | kubectl create --dry-run=server -f -

exit codes: 0 the server starts now, after a new node, or waits; 1 it never starts, the hub refuses it, or the values
are invalid; 3 the program cannot predict it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from gpuspawner.cli.cluster.cluster_view import ClusterViewer, add_view_arguments, open_cluster_viewer
from gpuspawner.cli.cluster.offline_spawner import open_offline_spawner
from gpuspawner.cli.common.output import (
    BAD,
    FAILED,
    OK,
    Document,
    Paint,
    add_output_argument,
    dump_yaml,
    format_columns,
    sanitize,
    write_result,
)
from gpuspawner.cli.explain.explanation import REFUSED, Explanation, explain_choice, explain_profile
from gpuspawner.cli.values.chart_config import get_configured_trait, list_omissions
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.request.options import parse_query
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.core.text.wording import quote
from gpuspawner.core.units.quantity import format_memory
from gpuspawner.core.verdict.verdict import Outcome
from gpuspawner.hub.admission.profiles import names_profile
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.spawner import GPUSpawner

_CHOICE_ARGUMENTS = ("image", "gpu", "count", "cpu", "memory", "preset")
_NAMES_SHOWN = 4
_MIN_BYTES = 1024**2
"""From this number on, a resource amount counts as a number of bytes, and the command shows it with a unit."""
_DEFAULT_USER = "user"
"""User name in the pod if the admin gives no ``--user``."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner explain``."""
    choice = parser.add_argument_group("the choice")
    choice.add_argument("--image", metavar="NAME", help="an image of the settings, or where they allow it a reference")
    choice.add_argument("--gpu", metavar="TYPE", help="a GPU type: see gpuspawner inventory; left out: no GPU")
    choice.add_argument("--count", metavar="N", help="how many GPUs (1)")
    choice.add_argument("--cpu", metavar="N", help="CPUs at most")
    choice.add_argument("--memory", metavar="SIZE", help="memory at most, such as 16G")
    choice.add_argument("--preset", metavar="NAME", help="a preset of the settings, with the other parts over it")
    choice.add_argument("--profile", metavar="SLUG", help="a profile of KubeSpawner's profile_list")
    choice.add_argument(
        "--option", metavar="NAME=CHOICE", action="append", type=_parse_choice, help="of the profile; repeat it"
    )
    choice.add_argument(
        "--user-options", metavar="JSON", type=_parse_user_options, help="instead of all that; @FILE reads a file"
    )
    who = parser.add_argument_group("the person")
    who.add_argument("--user", metavar="NAME", help="ask what the settings allow this person")
    who.add_argument("--group", metavar="NAME", action="append", default=[], help="a group of that person; repeat it")
    add_view_arguments(parser)
    parser.add_argument("--manifest", action="store_true", help="write the pod as well, as it would be created")
    add_output_argument(parser)
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Explain the choice that the arguments describe, and return the exit code.

    :raises SettingsError: the values are wrong.
    :raises ClusterError: the connection fails.
    """
    parts = (*_CHOICE_ARGUMENTS, "profile", "option")
    if arguments.user_options is not None and any(getattr(arguments, part) is not None for part in parts):
        arguments.usage_error("--user-options takes the place of the parts of a choice")
    if arguments.option and arguments.profile is None:
        arguments.usage_error("--option needs --profile")
    if arguments.user == "":
        arguments.usage_error("--user needs a name")
    if arguments.group and arguments.user is None:
        arguments.usage_error("--group needs --user")
    return asyncio.run(_run_async(arguments, out=out))


async def _run_async(arguments: argparse.Namespace, *, out: TextIO) -> int:
    user = Person(name=arguments.user or _DEFAULT_USER, groups=frozenset(arguments.group))
    async with open_cluster_viewer(arguments) as viewer, open_offline_spawner(viewer, user) as spawner:
        offer = replace(await spawner.make_offer(), answer_by=None)
        names_fields = any(getattr(arguments, part) is not None for part in _CHOICE_ARGUMENTS)
        if names_fields and spawner.profile_list and not spawner.has_fields:
            arguments.usage_error("the hub has only a profile_list: describe the choice by --profile and --option")
        if arguments.profile is not None and names_fields:
            arguments.usage_error("--profile and the fields of the form exclude each other")
        if arguments.profile is not None and not spawner.profile_list:
            arguments.usage_error("the hub has no profile_list: describe the choice by --preset, --gpu and the like")
        asks_policy = arguments.user is not None
        profile = as_dict(_build_profile_options(arguments))
        if spawner.profile_list and not names_fields and (not spawner.has_fields or names_profile(profile)):
            explanation = await explain_profile(spawner, profile, offer=offer, asks_policy=asks_policy)
        else:
            explanation = await _explain_fields(arguments, spawner, offer=offer, asks_policy=asks_policy)
        notices = (*list_omissions(viewer.values.chart), *_list_form_notices(viewer, spawner))
    document = explanation.serialize() | {"left_out": list(notices)}

    def table(paint: Paint) -> Iterator[str]:
        if not arguments.manifest:
            return _format_lines(document, paint=paint)
        return _append_manifest(_format_lines(document, paint=Paint(is_on=False)), explanation.manifest)

    shown = {name: part for name, part in document.items() if arguments.manifest or name != "manifest"}
    write_result(shown, output=arguments.output, out=out, table=table)
    if explanation.outcome in (REFUSED, Outcome.NEVER.value):
        return BAD
    return FAILED if explanation.outcome == Outcome.UNKNOWN.value else OK


async def _explain_fields(
    arguments: argparse.Namespace, spawner: GPUSpawner, *, offer: Offer, asks_policy: bool
) -> Explanation:
    try:
        options = _build_user_options(arguments, offer.catalog.images)
    except SelectionError as error:
        return Explanation(options={}, invalid=error.problems)
    return await explain_choice(spawner, options, offer=offer, asks_policy=asks_policy)


def _build_profile_options(arguments: argparse.Namespace) -> object:
    if arguments.user_options is not None:
        return arguments.user_options.value
    profile = {} if arguments.profile is None else {"profile": arguments.profile}
    return {**profile, **dict(arguments.option or ())}


@dataclass(frozen=True, slots=True)
class _UserOptions:
    """The parsed value of ``--user-options``.

    The class distinguishes the value None (JSON null) from a missing argument, for which argparse uses None.
    """

    value: object


def _parse_user_options(text: str) -> _UserOptions:
    try:
        document = Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
        return _UserOptions(json.loads(document))
    except (OSError, ValueError, RecursionError) as error:
        message = f"is no JSON that can be read: {error}"
        raise argparse.ArgumentTypeError(message) from error


def _parse_choice(text: str) -> tuple[str, str]:
    name, separator, choice = text.partition("=")
    if not (name and separator and choice):
        message = f"must be NAME=CHOICE, such as size=large, not {quote(text)}"
        raise argparse.ArgumentTypeError(message)
    return name, choice


def _build_user_options(arguments: argparse.Namespace, images: Collection[str]) -> object:
    """Return the value of ``--user-options``, or the user options that arguments such as ``--gpu`` describe.

    If the value of ``--image`` has a slash or colon and is not the slug of an offered image, it is the reference of a
    custom image.
    """
    if arguments.user_options is not None:
        return arguments.user_options.value
    given = {part: getattr(arguments, part) for part in _CHOICE_ARGUMENTS if getattr(arguments, part) is not None}
    if "count" in given:
        given["gpu_count"] = given.pop("count")
    image = given.get("image", "")
    if image not in images and ("/" in image or ":" in image):
        given["custom_image"] = given.pop("image")
    return parse_query({part: [text] for part, text in given.items()})


def _list_form_notices(viewer: ClusterViewer, spawner: GPUSpawner) -> Iterator[str]:
    forms = ("options_form", "options_from_form")
    if not spawner.has_fields and any(get_configured_trait(viewer.config, name) for name in forms):
        yield "No setting of gpuspawner describes a field beside a form of yours: a hub would show that, not ask this."


def _format_lines(report: Document, *, paint: Paint) -> Iterator[str]:
    invalid, refused = report.get("invalid", ()), report.get("policy", {}).get("refused", ())
    for problem in refused:
        yield paint.style_error(f"Refused ({problem['code']}): {sanitize(problem['message'])}")
    if verdict := report.get("verdict"):
        sentence = sanitize(verdict["sentence"])
        style = _PAINTS[verdict["outcome"]]
        yield f"By the cluster alone: {sentence}" if refused else style(paint, sentence)
    for problem in invalid:
        yield paint.style_error(f"Not valid: {problem['field'] or 'options'}: {sanitize(problem['message'])}")
    if report["manifest"] is not None:
        annotations = as_dict(as_dict(report["manifest"].get("metadata")).get("annotations"))
        yield f"Choice: {sanitize(str(annotations.get(f'{ANNOTATION_PREFIX}summary')))}"
    if "choice" in report:
        yield from map(sanitize, _format_choice(report["choice"]))
    if not invalid and not refused:
        is_asked = "policy" in report
        yield "Policy: allowed." if is_asked else "Policy: not checked, because no user is named (--user)."
    if report["nodes"]:
        yield ""
        cells = map(_format_cells, report["nodes"])
        yield from format_columns(cells, titles=("NODES", "TAKE IT NOW", "WHY NOT", "WHICH"), paint=paint)
    if report["nearest"]:
        yield ""
        yield paint.style_title("What starts now instead")
        yield from (f"  {sanitize(str(options['profile']))}" for options in report["nearest"])
    if verdict:
        yield ""
        yield from (paint.style_dim(f"Note: {sanitize(notice)}") for notice in report["left_out"])


def _format_choice(choice: Document) -> Iterator[str]:
    """Yield lines that name the allowed users, the container's resources and the overridden traits."""
    if not (choice["kubespawner_override"] or choice["access"]):
        return
    for name, access in choice["access"].items():
        names = [f"{kind} {member}" for kind in ("group", "user") for member in access[f"allowed_{kind}s"]]
        yield f"For: {name}: {', '.join(names)}"
    for kind in ("limits", "requests"):
        amounts = (choice["resources"].get(kind) or {}).items()
        yield f"Container: {kind} {', '.join(f'{name} {_format_amount(amount)}' for name, amount in amounts) or 'none'}"
    for trait, value in choice["kubespawner_override"].items():
        yield f"Pod: {trait.replace('_', ' ')} {_format_value(value)}"


def _format_amount(amount: object) -> str:
    """Return an amount of a container's resources as text; a number of bytes becomes an amount with a unit.

    KubeSpawner gives memory as a number of bytes, which the function recognizes by its size (:data:`_MIN_BYTES`).
    """
    if isinstance(amount, int) and amount >= _MIN_BYTES:
        return format_memory(amount)
    return str(amount).removesuffix(".0")


def _format_value(value: object) -> str:
    if isinstance(value, Mapping) and not any(isinstance(part, Mapping | list) for part in value.values()):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _format_cells(group: Document) -> tuple[str, ...]:
    names = ", ".join(group["names"][:_NAMES_SHOWN])
    more = group["number"] - _NAMES_SHOWN
    which = f"{names} and {more} more" if more > 0 else names
    return str(group["number"]), group["answer"], "; ".join(group["why"]) or "-", which


def _append_manifest(lines: Iterable[str], manifest: Mapping[str, Any] | None) -> Iterator[str]:
    yield from (f"# {sanitize(line)}".rstrip() for line in lines)
    if manifest is not None:
        yield dump_yaml(dict(manifest)).rstrip("\n")


_PAINTS: Mapping[str, Callable[[Paint, str], str]] = {
    Outcome.NOW: Paint.style_success,
    Outcome.AFTER_SCALE_UP: Paint.style_success,
    Outcome.WAITS: Paint.style_warning,
    Outcome.NEVER: Paint.style_error,
    Outcome.UNKNOWN: Paint.style_warning,
}
