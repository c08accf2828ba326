"""The hub's pages as a browser without JavaScript sees them: cookies, redirects and forms, nothing else."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar
from typing import Any

from bs4 import BeautifulSoup

TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    :param url: where the redirects ended.
    """

    status: int
    url: str
    soup: BeautifulSoup

    @property
    def text(self) -> str:
        return " ".join(self.soup.get_text(" ").split())

    @property
    def has_fields(self) -> bool:
        """Whether the spawn form has gpuspawner's fields, not only KubeSpawner's profiles."""
        return self.soup.select_one("#gpuspawner-form[data-only]") is None

    def island(self) -> dict[str, Any]:
        """Return all that the server hands to the spawn form's script."""
        island = self.soup.select_one("#gpuspawner-data")
        assert island is not None, self.text
        return dict(json.loads(island.get_text()))

    def offered(self) -> dict[str, dict[str, Any]]:
        """Return the GPU types that the spawn form offers, by slug, as the server hands them to the page's script."""
        return {gpu["slug"]: gpu for gpu in self.island()["gpus"]}

    def preset_images(self) -> dict[str, str]:
        """Return the image that each preset of the spawn form fills in, by the preset's slug."""
        return {preset["slug"]: preset["image"] for preset in self.island()["presets"]}

    def cards(self) -> dict[str, str]:
        """Return the verdict on the card of each profile of the spawn form, by slug."""
        outlooks = ((card["data-profile"], card.select_one(".gs-outlook")) for card in self.soup.select(".gs-profile"))
        return {str(slug): " ".join(outlook.get_text().split()) for slug, outlook in outlooks if outlook is not None}

    def details(self, gpu: str) -> str:
        """Return what stands under the counts of a GPU type of the spawn form, by its slug."""
        found = self.soup.select_one(f'label:has(> input[name=gpu][value="{gpu}"]) .gs-details')
        return "" if found is None else found.get_text()

    def misfits(self, image: str) -> dict[str, str]:
        """Return the GPU types that an image of the spawn form cannot use, with the reason, by slug."""
        (found,) = (each["misfits"] for each in self.island()["images"] if each["slug"] == image)
        return {slug: misfit["text"] for misfit in found for slug in misfit["gpus"]}

    def fields(self) -> dict[str, str]:
        """Return what the spawn form would send as it stands."""
        form = self.soup.select_one("#spawn_form")
        assert form is not None, self.text
        values: dict[str, str] = {}
        for field in form.select("input[name], select[name], textarea[name]"):
            if field.get("type") in {"radio", "checkbox"} and not field.has_attr("checked"):
                continue
            picked = field.select_one("option[selected]") if field.name == "select" else field
            values[str(field["name"])] = "" if picked is None else str(picked.get("value", ""))
        return values


class Visitor:
    """One person with a browser.

    :param url: address of the hub, without a slash at the end.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )

    def get(self, path: str, *, choice: Mapping[str, str] | None = None) -> Page:
        """Open a page.

        :param choice: fields of a spawn form to be told the verdict on, sent as an open form's script sends them.
        """
        headers = {} if choice is None else {"Gpuspawner-Choice": json.dumps(dict(choice))}
        return self._open(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path: str, fields: Mapping[str, str]) -> Page:
        """Send a form with the cross-site token that its page would have put into it."""
        data = urllib.parse.urlencode({**fields, "_xsrf": self._xsrf()}).encode()
        return self._open(urllib.request.Request(self.url + path, data=data))

    def send(self, path: str, body: bytes, *, content_type: str) -> Page:
        """Send bytes as a form, with the cross-site token in a header."""
        headers = {"Content-Type": content_type, "X-XSRFToken": self._xsrf()}
        return self._open(urllib.request.Request(self.url + path, data=body, headers=headers))

    def log_in(self, name: str, password: str = "any password") -> Page:
        self.get("/hub/login")
        return self.post("/hub/login?next=%2Fhub%2Fhome", {"username": name, "password": password})

    def _xsrf(self) -> str:
        return next((cookie.value or "" for cookie in self._cookies if cookie.name == "_xsrf"), "")

    def _open(self, request: urllib.request.Request) -> Page:
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return Page(answer.status, answer.url, BeautifulSoup(answer.read(), "html.parser"))
        except urllib.error.HTTPError as error:
            with error:
                return Page(error.code, error.url or "", BeautifulSoup(error.read(), "html.parser"))


def visit(url: str, name: str, password: str = "any password") -> Visitor:
    """Return a person who is logged in.

    :param url: address of the hub.
    """
    visitor = Visitor(url)
    visitor.log_in(name, password)
    return visitor
