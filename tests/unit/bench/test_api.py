"""The benchmarks' connection to the API server and its refusals."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from bench.api import Api, RefusedError


class RefusingApi(Api):
    """A connection whose API server refuses each request."""

    def __init__(self, status: HTTPStatus) -> None:
        self._refusal = RefusedError("no", status=status)

    def _json(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise self._refusal


def test_an_object_that_is_gone_already_is_deleted():
    assert RefusingApi(HTTPStatus.NOT_FOUND).delete("/api/v1/namespaces/truth/pods/jupyter-ada") is None


def test_a_deletion_that_the_api_server_refuses_is_an_error():
    with pytest.raises(RefusedError, match="no"):
        RefusingApi(HTTPStatus.CONFLICT).delete("/api/v1/namespaces/truth/pods/jupyter-ada")
