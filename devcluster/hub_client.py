"""A small client of JupyterHub's REST API, for tools that may wait (tests, the demo's clean-up)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

TIMEOUT_S = 60
_EVENT = b"data: "
# The hub runs on this machine: a proxy that the environment names would only be in the way.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the hub.

    :param body: parsed JSON where it is JSON, else the text.
    """

    status: int
    body: Any

    @property
    def message(self) -> str:
        """The message of an error for users; empty for anything else."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubClient:
    """Calls one hub with one token.

    :param url: of the hub's API, without a slash at the end (``http://127.0.0.1:8000/hub/api``).
    """

    url: str
    token: str = ""

    def request(self, method: str, path: str, *, body: object = None) -> Answer:
        """Send a request; an error status is an answer like any other.

        :param body: sent as JSON; bytes are sent as they are.
        :raises OSError: nothing answers there.
        """
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"token {self.token}"
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310 - http
        try:
            with _opener.open(request, timeout=TIMEOUT_S) as response:
                return Answer(response.status, _parse(response.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _parse(error.read()))

    def create_user(self, name: str) -> Answer:
        """Make a user known to the hub; 409 where it is already."""
        return self.request("POST", f"/users/{quote(name, safe='')}")

    def start_server(self, user: str, options: Mapping[str, object] | None = None, *, name: str = "") -> Answer:
        """Ask for a server; 202 means it is on its way.

        :param options: sent as the whole body, the form every JupyterHub understands.
        """
        return self.request("POST", _server(user, name), body=dict(options or {}))

    def stop_server(self, user: str, *, name: str = "") -> Answer:
        """Stop a server, also one that is still starting; 202 means it takes a while."""
        return self.request("DELETE", _server(user, name))

    def servers(self, user: str) -> dict[str, Any]:
        """Return a user's servers by name, as the hub's user model shows them; those that are stopped too."""
        answer = self.request("GET", f"/users/{quote(user, safe='')}?include_stopped_servers")
        return dict(answer.body.get("servers", {})) if answer.status == 200 else {}  # noqa: PLR2004 - HTTP OK

    def progress(self, user: str, *, name: str = "") -> Iterator[dict[str, Any]]:
        """Yield what the hub tells about a server that starts, as it tells it, until it runs or has failed.

        :raises OSError: the hub sent nothing for a minute.
        """
        headers = {"Authorization": f"token {self.token}", "Accept": "text/event-stream"}
        request = urllib.request.Request(f"{self.url}{_server(user, name)}/progress", headers=headers)  # noqa: S310 - http
        with _opener.open(request, timeout=TIMEOUT_S) as response:
            for line in response:
                if line.startswith(_EVENT):
                    yield json.loads(line.removeprefix(_EVENT))

    def users(self) -> list[dict[str, Any]]:
        """Return every user's model."""
        return list(self.request("GET", "/users").body)


def _server(user: str, name: str) -> str:
    path = f"/users/{quote(user, safe='')}/server"
    return f"{path}s/{quote(name, safe='')}" if name else path


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
