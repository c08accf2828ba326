"""What YAML's parser refuses, in one sentence for whoever wrote the file."""

from __future__ import annotations

import re

import yaml

from gpuspawner.cli.common.findings import FilePosition, Finding, Severity
from gpuspawner.core.text.quoting import sanitize_name

_TAB = "a tab stands where YAML takes spaces only"
_QUOTES = "the closing mark of a quotation is missing"
_MEANINGS = {
    r"found character '\t' that cannot start": _TAB,
    "mapping values are not allowed": (
        "a colon stands where no key can be: the indentation is wrong, or a text with a colon in it needs quotes"
    ),
    "expected <block end>": (
        "this does not fit the lines above: the indentation is wrong, or a quotation mark is left over"
    ),
    "could not find expected ':'": "a key has no colon after it, or the indentation is wrong",
    "found undefined alias": "no anchor above has this name",
    "expected ',' or": "a comma or a closing bracket is missing",
    "expected the node content": "a value is missing",
    "found unexpected end of stream": _QUOTES,
    "found unexpected document separator": _QUOTES,
    "found unknown escape character": r"double quotes know no such escape: a backslash is written \\ in them",
    "found a version other than": "Helm reads YAML 1.1 alone, so leave out the line with %YAML",
    "found an escape that is no": "Unicode has no such character",
    "that cannot start any token": "a text that begins like this needs quotes",
    "special characters are not allowed": "there is a control character",
}
_LONG_QUOTATION = f"is no YAML: {_QUOTES}, most likely of this one, which goes over several lines"
_ENDED = re.compile(
    r"could not find expected ':'|unexpected end of stream|unexpected document separator|but got '<stream end>'"
)


def build_yaml_finding(error: yaml.YAMLError, text: str, *, file: str) -> Finding:
    """Return what is wrong, at its line and column.

    :param text: what was parsed.
    """
    place = _locate_error(error, text, file=file)
    if (quotation := _find_quotation_start(text, place)) is not None:
        return Finding(severity=Severity.ERROR, code="bad_yaml", path="", message=_LONG_QUOTATION, place=quotation)
    told = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    lines = text.splitlines()
    before = lines[place.line - 1][: place.column] if place.line <= len(lines) else ""
    meaning = next((meaning for words, meaning in _MEANINGS.items() if words in told), "it cannot be read")
    if "\t" in before and not before.strip(" \t-"):
        meaning = _TAB
    reason = told if told.isprintable() else sanitize_name(told)
    message = f"is no YAML: {meaning} ({reason})"
    return Finding(severity=Severity.ERROR, code="bad_yaml", path="", message=message, place=place)


def _find_quotation_start(text: str, place: FilePosition) -> FilePosition | None:
    """Return where a quotation of several lines begins that ends on the line of an error.

    With a mark missing, a text goes on until the next quotation begins, which then looks wrong.
    """
    found = None
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                start, end = token.start_mark, token.end_mark
                if start.line < end.line and end.line + 1 == place.line:
                    found = FilePosition(place.file, start.line + 1, start.column + 1)
    except (yaml.YAMLError, ValueError, OverflowError):
        pass  # of which this is told
    return found


def _locate_error(error: yaml.YAMLError, text: str, *, file: str) -> FilePosition:
    mark, opened = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None or (opened is not None and _ENDED.search(str(error))):
        mark = opened  # what is not closed is found where it is opened, a key without a colon where it begins
    if mark is not None:
        return FilePosition(file, mark.line + 1, mark.column + 1)
    before = text[: max(getattr(error, "position", 0) or 0, 0)]
    return FilePosition(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
