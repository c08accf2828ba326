"""Turn a KubeSpawner profile_list into gpuspawner settings that give each user the same servers.

The files may be Helm values of zero-to-jupyterhub, merged in their order as Helm does (singleuser.profileList or
hub.config.KubeSpawner.profile_list, also below parent charts' keys), one file with a bare list in YAML or JSON, or one
jupyterhub_config.py, which the program executes. Each profile becomes a preset, and each of its options a choice of the
preset; users may start nothing else. The program writes Helm values to standard output. On standard error it names all
that is different, grouped by cause, with the name of each cause.

With --verify, the program builds the server of each choice of the old and the new values with the spawners' own code,
compares both, and prints a table on standard error. What it finds and no cause names has the name verification.

examples:
  gpuspawner convert values.yaml > converted.yaml
  gpuspawner convert common.yaml prod.yaml --verify > converted.yaml
  gpuspawner convert values.yaml --accept several-accelerators > converted.yaml
  gpuspawner convert jupyterhub_config.py --output json
  helm get values jhub | gpuspawner convert -

exit codes: 0 every choice gives the same server; 4 some choices differ or are missing, but access does not get wider,
and no server gets other resources, or you accepted it; 5 access would get wider or servers would get other resources:
nothing is written, unless --accept names each cause; 2 the input cannot be used: nothing is written.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import yaml
from kubespawner import KubeSpawner
from slugify import slugify
from traitlets.config.loader import LazyConfigValue, PyFileConfigLoader
from typing_extensions import override

from gpuspawner.cli.common.findings import Finding, Severity, format_path
from gpuspawner.cli.common.output import OK, Paint, dump_json, dump_yaml, sanitize
from gpuspawner.cli.compare import ChoicePair, ChoiceResult, ComparisonReport, Scope, compare_values, format_report
from gpuspawner.cli.compare.command import DIFFERENT, add_sample_arguments
from gpuspawner.cli.values.chart_config import build_spawner_config, get_configured_trait, needs_chart_tag
from gpuspawner.cli.values.helm_values import MAX_PARENTS, NO_PARENTS, HelmValues, merge_documents
from gpuspawner.cli.values.trait_sources import find_trait_source
from gpuspawner.cli.values.yaml_reader import (
    SCALAR_PATTERNS,
    LocatedValue,
    YAMLDocument,
    describe_decode_error,
    read_text,
    read_yaml,
)
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.json_access import KeyPath
from gpuspawner.core.text.wording import quote
from gpuspawner.hub.pod.override_checks import find_override_fault, parse_settings
from gpuspawner.settings import merge_values
from gpuspawner.settings.profiles import (
    BASE_TRAITS,
    ConvertedProfiles,
    Effect,
    Note,
    ProfileListError,
    SpawnerTraits,
    convert_profile_list,
    format_notes,
    group_notes,
    require_presets,
)
from gpuspawner.settings.profiles.notes import HOOKS, LIST_ONLY, PYTHON_CODE, PYTHON_LIST, UNREAD_ACCESS, UNUSED_LIST

UNUSABLE = 2
"""Exit code: the program cannot use the input, for example because it has no profile list."""
REFUSED = 5
"""Exit code: access would get wider, or servers' resources would change, and ``--accept`` does not name each reason."""
VERIFICATION = "verification"
"""Name to pass to ``--accept`` if only ``--verify`` has found wider access or changed resources."""
_REFUSED_LINE = f"{Effect.REFUSED}: "
"""Beginning of output lines about wider access or changed resources, which the admin must accept with ``--accept``."""

_CHART_PATHS: tuple[tuple[str, ...], ...] = (
    ("singleuser", "profileList"),
    ("hub", "config", "KubeSpawner", "profile_list"),
)
HUB_KUBESPAWNER = ("hub", "config", "KubeSpawner")
_SECTIONS = {"profileList": ("singleuser",), "config": ("hub",)}
"""Key at the top of a file that has only one section of zero-to-jupyterhub's values → path of that section."""
_CONFIG_KEYS = ("KubeSpawner", "Spawner", "profile_list")
"""Keys by which the program recognizes that a file contains JupyterHub's configuration instead of Helm values."""
_REMOVE_ONE = "Remove one of them: `gpuspawner check` takes it for an error."
_TEMPLATE = re.compile(r"(?<!\$)\{\{[-\s]*[.$A-Za-z_][^{}]*\}\}|\{%.*?%\}")
"""Matches a template such as ``{{ .Values.x }}``, whose value a template engine such as Helm fills in.

Doubled braces after $ are no template: they are KubeSpawner's notation for plain braces.
"""
_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*([:?=+-][^{}]*)?\}")
_FIELDS = re.compile(r"\$\{(\w*username\w*|\w*servername\w*|userid|user_server|hubnamespace|\w*pod_name\w*)\}")
"""Matches texts such as ``${username}``: KubeSpawner fills in the part in braces, so the text is no shell variable."""
_ACCESS_KEYS = ("allowed_groups", "allowed_users")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_HOOKS = re.compile(r"user_options|pre_spawn_hook|modify_pod_hook|options_form|options_from_form")
"""Matches names that occur in Python code that reads or changes the user's choice."""
_SETS_LIST = re.compile(
    r"profile_list[\"']?\]?\s*(\[.*\]\s*)?([+*]|:[^=\n]+)?=(?!=)|[\"']profile_list[\"']\s*:"
    r"|profile_list[\"']?\]?\s*\.\s*(append|clear|extend|insert|pop|remove|reverse|sort|update)\b"
    r"|\bdel\b.*profile_list|setattr\(.*profile_list"
)
"""Matches Python code that sets or changes the profile list."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner convert``.

    :param parser: the parser of the sub-command.
    """
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Helm values, a profile list, or a .py file; - is standard input"
    )
    parser.add_argument("--output", choices=("yaml", "json"), default="yaml", help="format of the result (%(default)s)")
    parser.add_argument(
        "--accept", metavar="NAME", action="append", default=[], help="accept a cause with this name; may be repeated"
    )
    parser.add_argument("--verify", action="store_true", help="compare the servers of all old and new choices")
    add_sample_arguments(parser)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSource:
    """A profile list, and the Helm values that contain it.

    :param values: values of zero-to-jupyterhub that contain the list.
    :param path: keys that lead to the list in ``values``.
    :param is_chart: whether the files are Helm values of the whole chart, and not only a section of them.
    :param is_partial: whether the files contain only a part of the hub's configuration, and so may lack values that
        KubeSpawner applies to every server.
    :param sorts_keys: whether the list reaches the hub through Helm, which sorts the keys of mappings.
    """

    values: HelmValues
    path: KeyPath
    is_chart: bool = True
    is_partial: bool = False
    sorts_keys: bool = True

    @property
    def profile_list(self) -> Any:
        """The profile list as the files contain it: a list, or a mapping whose values are the profiles."""
        found: Any = self.values.merged
        for key in self.path:
            found = found[key]
        return found

    @property
    def emptied(self) -> dict[str, Any]:
        """Helm values that replace profile lists with empty lists; {} if the files are only a section of a chart."""
        found: dict[str, Any] = {}
        for path in _CHART_PATHS if self.is_chart else ():
            if _get_at(self.values.chart, path):
                _set_at(found, path, value=[])
        return found

    def locate(self, path: KeyPath) -> str:
        """Return file, line and column of a part of the profile list, or "" if they are not known.

        :param path: keys and indexes in the profile list.
        """
        place = self.values.locate((*self.path, *path))
        return f"{place}: " if place is not None else ""


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Convert the files, write settings to ``out`` and all differences to ``notes``, and return the exit code.

    Write no settings if the exit code is :data:`UNUSABLE` or :data:`REFUSED`.

    :param arguments: arguments of the command line.
    :param out: stream for the settings.
    :param notes: stream for warnings, notes and the table of --verify.
    :raises OSError: a file cannot be read.
    """
    report: ComparisonReport | None = None
    try:
        source = read_profile_source(arguments.files, notes)
        converted = convert_source(source)
        _require_causes(arguments.accept, converted)
        values = build_values(source, converted)
        if arguments.verify:
            report = verify(source, converted, values=values, scope=Scope(limit=arguments.limit, seed=arguments.seed))
    except SettingsError as error:
        notes.write(f"gpuspawner convert: {sanitize(str(error))}\n")
        return UNUSABLE
    effects = {cause.effect for cause in group_notes(converted.notes)}
    status = DIFFERENT if effects - {Effect.NOTE} else OK
    refused = [cause.name for cause in group_notes(converted.notes) if cause.effect is Effect.REFUSED]
    if report is not None and _list_unnamed(report, converted):
        refused.append(VERIFICATION)
    missing = [name for name in refused if name not in arguments.accept]
    for line in format_notes(converted.notes):
        is_accepted = not missing and line.startswith(_REFUSED_LINE)
        notes.write(f"{sanitize(line.replace(_REFUSED_LINE, 'accepted: ', 1) if is_accepted else line)}\n")
    if report is not None:
        notes.writelines(f"{line}\n" for line in format_report(report, Paint.for_stream(notes), shows_same=False))
        status = status if report.is_same else DIFFERENT
    if missing:
        flags = " ".join(f"--accept {name}" for name in missing)
        notes.write(f"Nothing is written: access would get wider, or servers would change. To accept it: {flags}\n")
        return REFUSED
    write_values(values, out, output=arguments.output)
    return status


def _require_causes(names: Sequence[str], converted: ConvertedProfiles) -> None:
    """Check that each name given to ``--accept`` is :data:`VERIFICATION` or the name of a cause in the notes.

    :raises SettingsError: one of the names is unknown.
    """
    known = {VERIFICATION, *(note.cause.name for note in converted.notes)}
    for name in names:
        if name not in known:
            raise _make_error(f"--accept: there is no cause {name} here")


def _list_unnamed(report: ComparisonReport, converted: ConvertedProfiles) -> list[ChoiceResult]:
    """Return the choices with wider access or different resources that the notes of the conversion do not explain.

    A note with the effect ``REFUSED`` explains all choices of its profile. Users who choose nothing get the default
    profile; this result is explained if its differences are those of an explained choice.
    """
    names = {profile.display_name for profile in converted.profiles.values()}
    named = {_find_name(note.profile, names) for note in converted.notes if note.cause.effect is Effect.REFUSED}
    worse = [each for each in report.results if each.widens or each.changes_resources]
    explained = [each for each in worse if _find_name(each.pair.label, names) in named - {""}]
    known = {each.differences for each in explained}
    return [
        each for each in worse if each not in explained and (each.pair.old_options or each.differences not in known)
    ]


def _find_name(text: str, names: Collection[str]) -> str:
    """Return the profile's display name at the beginning of a text about a choice, or "" if there is none."""
    found = (name for name in names if text == name or text.startswith(f"{name} · "))
    return max(found, key=len, default="")


def convert_source(source: ProfileSource) -> ConvertedProfiles:
    """Return the settings that a profile list becomes.

    :param source: the profile list and its values.
    :raises SettingsError: the profile list cannot be converted; the message has the position.
    """
    values = source.values
    try:
        config = build_spawner_config(values.chart, namespace="default")
        base = {trait: get_configured_trait(config, trait) for trait in BASE_TRAITS}
        if needs_chart_tag(values.chart):
            # The image is unknown: the values name no tag, and the chart appends its own.
            base["image"] = None
        converted = convert_profile_list(
            source.profile_list, base=base, traits=describe_spawner(), sorts_keys=source.sorts_keys
        )
        converted = require_presets(_leave_invalid_out(converted))
    except ProfileListError as error:
        where = source.locate(error.path) or f"{format_path(source.path)}: "
        path = format_path(error.path)
        raise _make_error(f"{where}{path}{': ' if path else ''}{error.problems[0].message}") from error
    except SettingsError as error:
        trait = find_trait_source(values, error.field)
        field = trait.path if trait is not None else (*values.root, *error.field.split("."))
        place = values.locate(field)
        raise _make_error(
            f"{place}: {format_path(field)}: {error.problems[0].message}" if place else str(error)
        ) from error
    return replace(converted, notes=(*_list_source_notes(source), *converted.notes))


def _leave_invalid_out(converted: ConvertedProfiles) -> ConvertedProfiles:
    """Return the settings without the parts that the hub would refuse: presets, and entries in presets' lists.

    :raises SettingsError: the settings have a problem that is not in a preset.
    """
    while converted.presets:
        try:
            parse_settings(converted.settings)
        except SettingsError as error:
            problem = error.problems[0]
            found = converted.leave_out(problem.field, problem.message)
            if found is None:
                raise
            converted = found
        else:
            break
    return converted


def _list_source_notes(source: ProfileSource) -> Iterator[Note]:
    """Yield notes about what the files contain besides the profile list, such as Python code."""
    if source.is_partial:
        yield Note(cause=LIST_ONLY)
    code_of_hub = str([source.values.get_chart_section(("hub", key)) for key in ("extraConfig", "extraFiles")])
    if not any(key in code_of_hub for key in _ACCESS_KEYS) and _restricts_access(source.profile_list):
        yield Note(cause=UNREAD_ACCESS)
    for name, script in source.values.get_chart_section(("hub", "extraConfig")).items():
        code = _COMMENT.sub("", str(script))
        if "profile_list" in code:
            cause = PYTHON_LIST if _SETS_LIST.search(code) else PYTHON_CODE
            yield Note(cause=cause, field=f"hub.extraConfig.{name}")
        if _HOOKS.search(code):
            yield Note(cause=HOOKS, field=f"hub.extraConfig.{name}")
    if not source.is_chart:
        return
    for path in _CHART_PATHS:
        if _get_at(source.values.chart, path) and (*source.values.root, *path) != source.path:
            yield Note(cause=UNUSED_LIST, field=".".join(path))


def _restricts_access(value: Any) -> bool:
    """Return whether a part of a profile list, or a value inside it, is restricted to some groups or users."""
    if isinstance(value, Mapping):
        return any(value.get(key) is not None for key in _ACCESS_KEYS) or any(map(_restricts_access, value.values()))
    return isinstance(value, list | tuple) and any(map(_restricts_access, value))


def describe_spawner() -> SpawnerTraits:
    """Return what the conversion must know of the installed KubeSpawner, such as the names of its traits."""
    traits = KubeSpawner.class_traits(config=True)
    renamed = {f"{prefix}{name}": name for name in traits for prefix in ("singleuser_", "user_")}
    renamed |= {"image_spec": "image", "singleuser_image_spec": "image"}
    properties = {name for name in dir(KubeSpawner) if isinstance(getattr(KubeSpawner, name, None), property)}
    return SpawnerTraits(
        names=frozenset(traits),
        aliases={old: new for old, new in renamed.items() if old in properties},
        attributes=frozenset(dir(KubeSpawner)),
        find_fault=find_override_fault,
        slugify=slugify,
    )


def build_values(source: ProfileSource, converted: ConvertedProfiles) -> dict[str, Any]:
    """Return Helm values with the settings.

    The result also has an empty profile list. It replaces the old list if the admin passes the old file to Helm first
    and then the new file. Values below the key of a parent chart stay below this key.

    :param source: the profile list and its values.
    :param converted: the settings.
    """
    values: dict[str, Any] = {
        "hub": {
            "config": {
                "JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"},
                "GPUSpawner": dict(converted.settings),
            }
        }
    }
    values = merge_values(values, source.emptied)
    for key in reversed(source.values.root):
        values = {key: values}
    return values


def verify(
    source: ProfileSource, converted: ConvertedProfiles, *, values: Mapping[str, Any], scope: Scope
) -> ComparisonReport:
    """Compare the servers of all choices of the old profile list with those of the converted settings.

    :param source: the profile list and its values.
    :param converted: the settings.
    :param values: the Helm values with the settings.
    :param scope: maximum number of choices to compare, and seed of the sample; other attributes have no effect.
    """
    without_list = merge_values(source.values.merged, {})
    _set_at(without_list, source.path, value=[])
    new = HelmValues(merged=merge_values(without_list, values))
    scope = replace(scope, find_pair=make_pair_finder(converted), is_conversion=True, old_is_helm=source.sorts_keys)
    return compare_values(source.values, new, scope=scope)


def make_pair_finder(converted: ConvertedProfiles) -> Callable[[Mapping[str, object]], ChoicePair]:
    """Return a function that pairs user options for the old profile list with those for the new settings.

    The new options are None if the settings lack the choice.

    :param converted: the settings.
    """

    def find_pair(options: Mapping[str, object]) -> ChoicePair:
        label = converted.describe_options(options)
        found = converted.convert_options(options)
        reason = "" if found is not None else "left out: the notes above say why"
        return ChoicePair(label=label, old_options=options, new_options=found, reason=reason)

    return find_pair


def write_values(values: Mapping[str, Any], out: TextIO, *, output: str) -> None:
    """Write Helm values.

    :param values: the values.
    :param out: the stream.
    :param output: ``yaml`` or ``json``.
    """
    if output == "json":
        out.write(f"{dump_json(values, indent=2)}\n")
    else:
        out.write(dump_yaml(values, dumper=_Dumper))


class _Dumper(yaml.SafeDumper):
    """Writes YAML that Helm reads as written: texts that go-yaml takes for numbers or booleans get quotes."""

    yaml_implicit_resolvers = {key: list(each) for key, each in yaml.SafeDumper.yaml_implicit_resolvers.items()}  # noqa: RUF012

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


for _name, _pattern, _first in SCALAR_PATTERNS:
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(_pattern), _first)


def read_profile_source(files: Sequence[str], notes: TextIO) -> ProfileSource:
    """Read a profile list from files, and return it with the Helm values that contain it.

    :param files: names of files; ``-`` is standard input.
    :param notes: stream for warnings about keys that are written twice.
    :raises SettingsError: the files have no profile list, or contain mistakes.
    :raises OSError: a file cannot be read.
    """
    if any(file.endswith(".py") for file in files):
        if len(files) > 1:
            raise _make_error("a .py file cannot be merged with other files")
        return _read_python(files[0])
    documents = [_read_document(file, may_be_list=len(files) == 1) for file in files]
    _report_flaws(documents, notes)
    found = _place_document(documents[0]) if len(documents) == 1 else _find_in_chart(merge_documents(documents))
    _refuse_templates(found)
    return found


def _place_document(document: YAMLDocument) -> ProfileSource:
    """Return the profile list of a single file, which may contain only a section of the chart's values."""
    top = document.tree.value
    if isinstance(top, list):
        values = _wrap(document, ("singleuser", "profileList"))
        return ProfileSource(values=values, path=("singleuser", "profileList"), is_chart=False, is_partial=True)
    for key, section in _SECTIONS.items():
        if key in top and "singleuser" not in top:
            return replace(_find_in_chart(_wrap(document, section)), is_chart=False, is_partial=True)
    if any(key in top for key in _CONFIG_KEYS):
        is_bare = "profile_list" in top
        found = _find_in_chart(_wrap(document, HUB_KUBESPAWNER if is_bare else HUB_KUBESPAWNER[:2]))
        return replace(found, is_chart=False, is_partial=is_bare, sorts_keys=False)
    return _find_in_chart(merge_documents([document]))


def _wrap(document: YAMLDocument, path: KeyPath) -> HelmValues:
    """Return Helm values of zero-to-jupyterhub in which a document is the value at a path.

    The result removes the memory guarantee that the chart gives to every server by default.
    """
    tree = document.tree
    for key in reversed(path):
        tree = LocatedValue(value={key: tree}, place=tree.place)
    nothing = read_yaml("singleuser: {memory: {guarantee: null}}", file="")
    return merge_documents([nothing, replace(document, tree=tree)])


def _find_in_chart(values: HelmValues) -> ProfileSource:
    source = find_trait_source(values, "profile_list")
    if source is None or not source.value:
        raise _make_error(_describe_missing(values))
    others = [path for path in _list_chart_lists(values.merged, ()) if path[: len(values.root)] != values.root]
    if others:
        both = " and ".join(map(format_path, sorted((source.path, others[0]), key=format_path)))
        raise _make_error(f"there are profile lists of two charts, {both}: convert each in a file of its own")
    return ProfileSource(values=values, path=source.path)


def _list_chart_lists(found: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all profile lists in Helm values, including those below the keys of parent charts."""
    for chart_path in _CHART_PATHS:
        if _get_at(found, chart_path):
            yield (*path, *chart_path)
    for key, each in found.items():
        if isinstance(each, Mapping) and key not in NO_PARENTS and len(path) < MAX_PARENTS:
            yield from _list_chart_lists(each, (*path, str(key)))


def _describe_missing(values: HelmValues) -> str:
    for name, script in values.get_chart_section(("hub", "extraConfig")).items():
        if "profile_list" in str(script):
            path = (*values.root, "hub", "extraConfig", name)
            place = values.locate(path)
            message = "makes the profile list in Python: its values are not known before a server starts"
            return f"{place}: {format_path(path)}: {message}"
    file = next((entry.place.file for entry in values.tree.value.values()), "")
    paths = ", ".join(".".join(path) for path in _CHART_PATHS)
    return f"{file}{': ' if file else ''}has no profile list ({paths})"


def _refuse_templates(source: ProfileSource) -> None:
    for path, text in _list_texts(source.profile_list, ()):
        is_shell = any(character.isspace() for character in text)
        if _TEMPLATE.search(text) or (not is_shell and _VARIABLE.search(_FIELDS.sub("", text))):
            message = f"is a template, which has no value yet: {quote(text)}. Render the file first"
            raise _make_error(f"{source.locate(path)}{format_path((*source.path, *path))}: {message}")


def _list_texts(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    for key, each in (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    ):
        yield from _list_texts(each, (*path, key))


def _read_python(file: str) -> ProfileSource:
    path = Path(file).absolute()
    # Call stat() first: it raises an OSError with the reason. PyFileConfigLoader would only say that the file is
    # missing.
    path.stat()
    try:
        config = PyFileConfigLoader(path.name, str(path.parent)).load_config()
    except (Exception, SystemExit) as error:
        raise _make_error(f"{file}: cannot be run here: {type(error).__name__}: {error}") from error
    sections = {name: _read_section(config.get(name, {})) for name in ("KubeSpawner", "Spawner")}
    profile_list = next((each["profile_list"] for each in sections.values() if each.get("profile_list")), None)
    if profile_list is None:
        raise _make_error(f"{file}: has no profile list (c.KubeSpawner.profile_list)")
    if callable(profile_list):
        raise _make_error(f"{file}: c.KubeSpawner.profile_list is a function: its values are not known before a start")
    values = {"hub": {"config": sections}, "singleuser": {"memory": {"guarantee": None}}}
    return ProfileSource(
        values=HelmValues(merged=values), path=(*HUB_KUBESPAWNER, "profile_list"), is_chart=False, sorts_keys=False
    )


def _read_section(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if not isinstance(value, LazyConfigValue)}


def _get_at(section: Mapping[str, Any], path: KeyPath) -> Any:
    found: Any = section
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _set_at(values: dict[str, Any], path: KeyPath, *, value: object) -> None:
    for key in path[:-1]:
        values[str(key)] = dict(values.get(str(key)) or {})
        values = values[str(key)]
    values[str(path[-1])] = value


def _make_error(message: str) -> SettingsError:
    return SettingsError(Problem(field="", code="bad_value", message=message))


def _read_document(file: str, *, may_be_list: bool) -> YAMLDocument:
    name = "<stdin>" if file == "-" else file
    try:
        text = read_text(file)
    except UnicodeDecodeError as error:
        raise _make_error(f"{name}: {describe_decode_error(error)}") from error
    document = read_yaml(text, file=name, may_be_list=may_be_list)
    lines = text.splitlines()
    for flaw in document.flaws:
        line = lines[flaw.place.line - 1] if flaw.place and flaw.place.line <= len(lines) else ""
        if flaw.severity is Severity.ERROR and flaw.code != "duplicate_key" and ("{{" in line or "{%" in line):
            raise _make_error(f"{flaw.place}: is a template, which has no values yet: render it first")
    return document


def _report_flaws(documents: Sequence[YAMLDocument], notes: TextIO) -> None:
    flaws = [flaw for document in documents for flaw in document.flaws]
    if errors := [flaw for flaw in flaws if flaw.severity is Severity.ERROR and flaw.code != "duplicate_key"]:
        raise SettingsError(*(flaw.problem for flaw in errors[:1]))
    for flaw in flaws:
        notes.write(f"warning: {sanitize(_describe_flaw(flaw))}\n")


def _describe_flaw(flaw: Finding) -> str:
    text = ": ".join(filter(None, (str(flaw.place or ""), flaw.path, flaw.message)))
    # Tell the admin to remove a duplicate key: `convert` only warns about it, but `gpuspawner check` reports an error.
    return f"{text}. {_REMOVE_ONE}" if flaw.severity is Severity.ERROR else text
