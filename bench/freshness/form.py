"""The form as a user gets it by loading the page anew, over HTTP and without a browser."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.cookiejar import CookieJar

from bench.freshness.cluster import TOTAL, TYPE
from devcluster import DevclusterError

TIMEOUT_S = 30
ISLAND = re.compile(r'<script type="application/json" id="?gpuspawner-data"?>(.*?)</script>', re.DOTALL)
CAPACITY = re.compile(rf'name="?gpu"? value="{re.escape(TYPE)}".*?class="?gs-free"?>([^<]*)<', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Loaded:
    """One page.

    :param text: what it says of the type that is measured.
    :param took_s: from the beginning of the request until all of the page was there.
    """

    text: str
    took_s: float


class Form:
    """One person who is logged in.

    :param url: address of the hub, without a slash at the end.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )
        self._open("/hub/login")
        token = next((cookie.value or "" for cookie in self._cookies if cookie.name == "_xsrf"), "")
        fields = {"username": name, "password": "any password", "_xsrf": token}
        self._open("/hub/login?next=%2Fhub%2Fhome", data=urllib.parse.urlencode(fields).encode())
        self.row = row_of_type(self._open("/hub/spawn"))

    def load(self) -> Loaded:
        """Load the form."""
        began = time.monotonic()
        page = self._open("/hub/spawn")
        took_s = time.monotonic() - began
        found = CAPACITY.search(page)
        return Loaded(found.group(1) if found else "", took_s)

    def _open(self, path: str, *, data: bytes | None = None) -> str:
        request = urllib.request.Request(self._url + path, data=data)  # noqa: S310 - http
        with self._opener.open(request, timeout=TIMEOUT_S) as answer:
            return str(answer.read().decode())


def row_of_type(page: str) -> str:
    """Return the id that the radio button of the measured type has in a page with its script."""
    island = ISLAND.search(page)
    slugs = [gpu["slug"] for gpu in json.loads(island.group(1))["gpus"]] if island else []
    if TYPE not in slugs:
        raise DevclusterError(f"the form does not offer {TYPE}, but {slugs}")
    return f"gpuspawner-gpu-{slugs.index(TYPE) + 1}"


def capacity_text(free: int) -> str:
    """Return what a form says while so many are free."""
    return f"{free} of {TOTAL} free"
