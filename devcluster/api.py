"""The API server as plain JSON over one connection, for devcluster's own few calls.

Starting a cluster takes few calls; the official client takes longer to import than all of them take.
"""

from __future__ import annotations

import http.client
import json
import ssl
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from devcluster.errors import DevclusterError
from devcluster.run_dir import Addresses, RunDir

_TIMEOUT_S = 10.0


class ApiError(DevclusterError):
    """The API server refused a request."""


class Api:
    """A connection with the administrator's rights; for one thread at a time."""

    def __init__(self, run_dir: RunDir, addresses: Addresses) -> None:
        context = ssl.create_default_context(cafile=str(run_dir.ca_file))
        context.load_cert_chain(run_dir.pki / "admin.crt", run_dir.pki / "admin.key")
        self._connection = http.client.HTTPSConnection(
            addresses.gateway, addresses.api_port, timeout=_TIMEOUT_S, context=context
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request would open it again."""
        self._connection.close()

    def ready(self) -> bool:
        """Say whether the API server is ready, RBAC's default roles included."""
        return self._request("GET", "/readyz")[0] == HTTPStatus.OK

    def get(self, path: str) -> dict[str, Any] | None:
        """Return an object or list, None where it does not exist.

        Raises ApiError where the API server refuses, OSError where it does not answer; so do the methods below.
        """
        return self._json("GET", path, absent=HTTPStatus.NOT_FOUND)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Create an object in a collection and return it, None where one of that name exists."""
        return self._json("POST", path, body=body, absent=HTTPStatus.CONFLICT)

    def delete(self, path: str) -> None:
        """Delete an object, which need not exist."""
        self._json("DELETE", path, absent=HTTPStatus.NOT_FOUND)

    def _json(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, absent: HTTPStatus
    ) -> dict[str, Any] | None:
        status, text = self._request(method, path, body=body)
        if status == absent:
            return None
        if status >= HTTPStatus.BAD_REQUEST:
            raise ApiError(f"{method} {path} was answered with {status}: {' '.join(text.split())[:300]}")
        document: dict[str, Any] = json.loads(text)
        return document

    def _request(self, method: str, path: str, *, body: dict[str, Any] | None = None) -> tuple[int, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self.close()  # a connection that failed once serves no second request
            raise ConnectionError(f"the API server does not answer: {error}") from error
