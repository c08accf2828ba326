"""Answers the refreshes of open forms: with the data that have changed, or with nothing if nothing has.

An open form asks for its page again and again (:func:`gpuspawner.hub.request.context.find_refresh`). The answer is JSON
in the shape of the form's data, not the page. It contains only what differs from the data with the entity tag that the
form sends, and says in headers how old the counts are and when the form should ask again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple, NoReturn

from tornado.web import Finish

from gpuspawner.core.form.refresh import REFRESHED_GPU_COLUMNS, encode_refresh, encode_refreshed_gpu
from gpuspawner.core.form.views import FormView, GPUTypeView

AGE_HEADER = "Gpuspawner-Age"
"""Header of an answer: seconds since the API server confirmed the counts. It is missing if the age is unknown."""
AGAIN_HEADER = "Gpuspawner-Again"
"""Header of an answer: seconds after which the form should ask again."""

_MAX_SNAPSHOTS = 4096
"""Maximum number of snapshots of forms' data; forms whose snapshot is gone get all data again."""
_MAX_CHARACTERS = 32_000_000
"""Maximum number of characters in all snapshots together."""
_MAX_CACHED_ROWS = 4096
_MIN_GZIP_BYTES = 1000
_GZIP_LEVEL = 6
_TAG = re.compile(r'"([0-9a-f]{32})')
"""Finds an entity tag of this module in ``If-None-Match``, even one to which a proxy has added ``W/`` or a suffix."""
_MAX_HEADER_CHARACTERS = 400


class _Table(NamedTuple):
    """Column names as JSON, and slug → row as JSON."""

    names: str
    rows: Mapping[str, str]


class _Snapshot(NamedTuple):
    """The data of a form at one time: each member as JSON, and the tables."""

    members: Mapping[str, str]
    tables: Mapping[str, _Table]


class FormUpdates:
    """Remembers which data open forms have, and finds what has changed since; the hub has one object of this class.

    Forms with equal data have the same entity tag and share one snapshot, also if they belong to different users.

    :param limit: maximum number of snapshots; beyond the maximum, the one that was not used for longest is forgotten.
    :param max_characters: maximum number of characters in all snapshots together; likewise.
    """

    def __init__(self, *, limit: int = _MAX_SNAPSHOTS, max_characters: int = _MAX_CHARACTERS) -> None:
        self._limit = limit
        self._max_characters = max_characters
        self._characters = 0
        self._snapshots: OrderedDict[str, _Snapshot] = OrderedDict()

    def remember(self, view: FormView) -> str:
        """Remember the data of a form, and return its entity tag.

        :param view: the form's view, in the current language.
        """
        tag, _ = self._remember(view)
        return tag

    def encode_changes(self, view: FormView, *, since: str) -> tuple[str, str]:
        """Return the entity tag of a form's data, and as JSON what differs from earlier data; "" for no difference.

        :param view: the form's view, in the current language.
        :param since: entity tag of the earlier data. If it is unknown, the result contains all data.
        """
        before = self._snapshots.get(since)
        tag, now = self._remember(view)
        if tag == since:
            return tag, ""
        return tag, _encode_changes(now, before or _Snapshot({}, {}))

    def _remember(self, view: FormView) -> tuple[str, _Snapshot]:
        found = _take_snapshot(view)
        digest = hashlib.blake2b(digest_size=16)
        for name, text in found.members.items():
            digest.update(f"{name}:{text}\n".encode(errors="replace"))
        for name, table in found.tables.items():
            digest.update("\n".join((name, table.names, *table.rows.values(), "")).encode(errors="replace"))
        tag = digest.hexdigest()
        if tag not in self._snapshots:
            self._snapshots[tag] = found
            self._characters += _count_characters(found)
        self._snapshots.move_to_end(tag)
        while len(self._snapshots) > self._limit or (
            self._characters > self._max_characters and len(self._snapshots) > 1
        ):
            _, forgotten = self._snapshots.popitem(last=False)
            self._characters -= _count_characters(forgotten)
        return tag, found


def _count_characters(snapshot: _Snapshot) -> int:
    tables = (sum(map(len, table.rows.values())) for table in snapshot.tables.values())
    return sum(map(len, snapshot.members.values())) + sum(tables)


def _take_snapshot(view: FormView) -> _Snapshot:
    members, tables = encode_refresh(view)
    gpus = {gpu.slug: _format_gpu(gpu) for vendor in view.vendors for gpu in vendor.types}
    return _Snapshot(
        members={name: _format_json(value) for name, value in members.items()},
        tables={
            "gpus": _Table(_format_names(REFRESHED_GPU_COLUMNS), gpus),
            **{
                name: _Table(_format_names(names), {slug: _format_json(row) for slug, row in rows.items()})
                for name, (names, rows) in tables.items()
            },
        },
    )


@lru_cache(maxsize=_MAX_CACHED_ROWS)
def _format_gpu(gpu: GPUTypeView) -> str:
    return _format_json(encode_refreshed_gpu(gpu))


@lru_cache
def _format_names(names: tuple[str, ...]) -> str:
    return _format_json(names)


def _format_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encode_changes(now: _Snapshot, before: _Snapshot) -> str:
    """Return what has changed as a JSON object.

    The version is always there. A table has all of its rows, but of a row that has not changed only the slug.
    """
    changed = {
        name: text for name, text in now.members.items() if name == "version" or before.members.get(name) != text
    }
    for name, table in now.tables.items():
        known = before.tables.get(name)
        if known != table:
            changed[name] = f'{{"names":{table.names},"rows":[{",".join(_list_rows(table, known))}]}}'
    members = ",".join(f'"{name}":{text}' for name, text in changed.items())
    return f"{{{members}}}"


def _list_rows(table: _Table, known: _Table | None) -> Iterable[str]:
    rows = known.rows if known is not None and known.names == table.names else {}
    return (row if rows.get(slug) != row else _format_json(slug) for slug, row in table.rows.items())


class RefreshPace:
    """Decides when open forms should ask again, so that all together cost at most a share of a CPU core.

    Each refresh reserves as much time as refreshes lately took, divided by the share, and the next refresh of its form
    comes after all time that is already reserved. With few open forms, that is after ``least_s`` seconds.

    :param share: the share of a core, above 0 and at most 1.
    :param least_s: shortest time until the next refresh, in seconds.
    :param most_s: longest time.
    :param clock: returns monotonic seconds.
    :param cpu_clock: returns the CPU time of this process in seconds.
    """

    _WEIGHT = 0.1
    """How much the latest refresh counts in the average of what refreshes take."""

    def __init__(
        self,
        share: float = 0.06,
        *,
        least_s: float = 10.0,
        most_s: float = 90.0,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._share, self._least_s, self._most_s = share, least_s, most_s
        self._clock, self._cpu_clock = clock, cpu_clock
        self._reserved_until = float("-inf")
        self._cost_s = 0.0
        self._cpu_s = cpu_clock()

    def plan_next(self, took_s: float) -> float:
        """Return after how many seconds the form that has just asked should ask again.

        :param took_s: seconds since the request for this refresh arrived. The refresh cannot have taken more CPU time
            than that, nor more than the process used since the last refresh.
        """
        now, cpu_s = self._clock(), self._cpu_clock()
        cost_s = max(0.0, min(took_s, cpu_s - self._cpu_s))
        self._cpu_s = cpu_s
        self._cost_s += self._WEIGHT * (cost_s - self._cost_s)
        at = max(now + self._least_s, self._reserved_until + self._cost_s / self._share)
        self._reserved_until = min(at, now + self._most_s)
        return self._reserved_until - now


class RefreshAnswer(NamedTuple):
    """The answer to a refresh.

    :param status: 200, or 304 if nothing has changed.
    :param headers: name → value.
    :param body: JSON, perhaps compressed; empty with status 304.
    """

    status: HTTPStatus
    headers: dict[str, str]
    body: bytes


def build_answer(view: FormView, *, sent: Mapping[str, str], updates: FormUpdates, again_s: float) -> RefreshAnswer:
    """Return the answer to an open form's refresh; status 304 if the form already has the newest data.

    :param view: the form's view as it is now.
    :param sent: headers of the request, untrusted; names are compared without letter case.
    :param updates: knows which data the form has.
    :param again_s: after how many seconds the form should ask again.
    """
    known = _TAG.search(sent.get("If-None-Match", "")[:_MAX_HEADER_CHARACTERS])
    tag, text = updates.encode_changes(view, since=known[1] if known else "")
    headers = {"Cache-Control": "private, no-store", "ETag": f'"{tag}"', AGAIN_HEADER: f"{again_s:.1f}"}
    if view.age_s is not None:
        headers[AGE_HEADER] = f"{view.age_s:.1f}"
    if not text:
        return RefreshAnswer(HTTPStatus.NOT_MODIFIED, headers, b"")
    headers |= {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding, Cookie",
    }
    body = text.encode(errors="replace")
    if len(body) >= _MIN_GZIP_BYTES and "gzip" in sent.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
    return RefreshAnswer(HTTPStatus.OK, headers, body)


def answer_refresh(handler: Any, view: FormView, *, updates: FormUpdates, pace: RefreshPace) -> NoReturn:
    """Set the answer to an open form's refresh, and end the request.

    :param handler: tornado's handler of the request.
    :param view: the form's view as it is now.
    :param updates: knows which data the form has.
    :param pace: knows how soon the form should ask again.
    :raises tornado.web.Finish: always; tornado then sends the answer.
    """
    request = handler.request
    again_s = pace.plan_next(request.request_time())
    status, headers, body = build_answer(view, sent=request.headers, updates=updates, again_s=again_s)
    handler.set_status(status)
    for name, value in headers.items():
        handler.set_header(name, value)
    # The body is a difference, so tornado must not take its digest as the tag of the data.
    handler.compute_etag = lambda: headers["ETag"]
    raise Finish(*([body] if body else []))
