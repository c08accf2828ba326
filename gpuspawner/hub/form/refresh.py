"""Answers the refreshes of open forms: with the form's data, or with nothing if nothing has changed.

An open form asks for its page again and again (:func:`gpuspawner.hub.request.context.find_refresh`). The answer is the
JSON that the page contains, without the page. Headers say how old the counts are and when the form should ask again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple, NoReturn

from tornado.web import Finish

from gpuspawner.core.form.encoding import encode_view
from gpuspawner.core.form.views import FormView

AGE_HEADER = "Gpuspawner-Age"
"""Header of an answer: seconds since the API server confirmed the counts. It is missing if the age is unknown."""
AGAIN_HEADER = "Gpuspawner-Again"
"""Header of an answer: seconds after which the form should ask again."""

_MIN_GZIP_BYTES = 1000
_GZIP_LEVEL = 6
_TAG = re.compile(r'"([0-9a-f]{32})')
"""Finds an entity tag of this module in ``If-None-Match``, even one to which a proxy has added ``W/`` or a suffix."""
_MAX_HEADER_CHARACTERS = 400


def compute_tag(view: FormView) -> str:
    """Return the entity tag of a form's data, which is the same for forms with equal data.

    :param view: the form's view, in the current language.
    """
    return _hash(_encode(view))


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _encode(view: FormView) -> bytes:
    """Return the data of a form as JSON, without their age and tag: the data stay equal while nothing has changed."""
    data = encode_view(replace(view, age_s=None, tag=""))
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


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


def build_answer(view: FormView, *, sent: Mapping[str, str], again_s: float) -> RefreshAnswer:
    """Return the answer to an open form's refresh; status 304 if the form already has the newest data.

    :param sent: headers of the request, untrusted; names are compared without letter case.
    """
    known = _TAG.search(sent.get("If-None-Match", "")[:_MAX_HEADER_CHARACTERS])
    body = _encode(view)
    tag = _hash(body)
    headers = {"Cache-Control": "private, no-store", "ETag": f'"{tag}"', AGAIN_HEADER: f"{again_s:.1f}"}
    if view.age_s is not None:
        headers[AGE_HEADER] = f"{view.age_s:.1f}"
    if known and known[1] == tag:
        return RefreshAnswer(HTTPStatus.NOT_MODIFIED, headers, b"")
    headers |= {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding, Cookie",
    }
    if len(body) >= _MIN_GZIP_BYTES and "gzip" in sent.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
    return RefreshAnswer(HTTPStatus.OK, headers, body)


def answer_refresh(handler: Any, view: FormView, *, pace: RefreshPace) -> NoReturn:
    """Set the answer to an open form's refresh, and end the request.

    :param handler: tornado's handler of the request.
    :raises tornado.web.Finish: always; tornado then sends the answer.
    """
    request = handler.request
    again_s = pace.plan_next(request.request_time())
    status, headers, body = build_answer(view, sent=request.headers, again_s=again_s)
    handler.set_status(status)
    for name, value in headers.items():
        handler.set_header(name, value)
    # The page has our tag of the data, so tornado must not take the digest of the body.
    handler.compute_etag = lambda: headers["ETag"]
    raise Finish(*([body] if body else []))
