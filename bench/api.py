"""An API server over one connection, as plain JSON: just enough for thousands of small calls."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devcluster.errors import DevclusterError

TIMEOUT_S = 60.0


class RefusedError(DevclusterError):
    """The API server refused a request."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """A connection for one thread; ``folder`` holds ca.crt and the administrator's key pair."""

    def __init__(self, address: tuple[str, int], *, folder: Path) -> None:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self._connection = http.client.HTTPSConnection(*address, timeout=TIMEOUT_S, context=context)

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
        """Say whether the API server is ready."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self._request("GET", "/readyz").status == HTTPStatus.OK
        self.close()
        return False

    def get(self, path: str) -> dict[str, Any]:
        """Return an object or a list; raises RefusedError where there is none."""
        return self._json("GET", path)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object in a collection and return it; raises RefusedError where the API server does not take it."""
        return self._json("POST", path, body=body)

    def patch(self, path: str, body: dict[str, Any]) -> None:
        """Merge something into an object."""
        self._json("PATCH", path, body=body)

    def delete(self, path: str, *, grace_s: int | None = 0) -> None:
        """Delete an object or a collection; pods at once unless a time of grace is given, None for their own.

        An object that is gone is no error: a controller may delete it first, as Kueue does with pods that it preempts.
        """
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self._json("DELETE", path, body={"apiVersion": "v1", "kind": "DeleteOptions", **options})
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def watch(self, path: str, *, since: str) -> Iterator[bytes]:
        """Yield the lines of a watch from a resourceVersion on, until the API server ends it.

        The connection is of no other use until then. Raises TimeoutError when nothing comes for a long time.
        """
        response = self._request("GET", f"{path}?watch=1&resourceVersion={since}", read=False)
        if response.status != HTTPStatus.OK:
            raise RefusedError(f"watching {path} was answered with {response.status}", status=response.status)
        while line := response.readline():
            yield line

    def _json(self, method: str, path: str, *, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self._request(method, path, body=body, read=False)
        text = response.read()
        if response.status >= HTTPStatus.BAD_REQUEST:
            words = " ".join(text.decode(errors="replace").split())
            message = f"{method} {path} was answered with {response.status}: {words[:1000]}"
            raise RefusedError(message, status=response.status)
        document: dict[str, Any] = json.loads(text)
        return document

    def _request(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, read: bool = True
    ) -> http.client.HTTPResponse:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "Content-Type": kind}
        self._connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
        response = self._connection.getresponse()
        if read:
            response.read()
        return response
