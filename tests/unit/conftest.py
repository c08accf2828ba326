"""Common parts of all unit tests."""

from __future__ import annotations

import gc
import inspect
import logging
import os
from collections.abc import Iterator

import pytest

from tests.unit.clocks import Clock, clock_for


@pytest.fixture(scope="session", autouse=True)
def no_certificate_authorities():
    """Keep clients from reading the machine's authorities: 40 ms each time one is made, and no unit test speaks TLS.

    https://docs.openssl.org/master/man3/SSL_CTX_load_verify_locations/
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", os.devnull)
        patch.setenv("SSL_CERT_DIR", os.devnull)
        yield


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the last test of a module after which asyncio reports a task, or an exception, that no test asked for.

    It reports them when they are collected, as lines of a log that no test looks at.
    """
    # A collection takes a fifth of a second, and most modules have nothing to do with asyncio.
    if not any(inspect.iscoroutinefunction(each) for each in vars(request.module).values()):
        yield
        return
    reports: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: reports.append(handler.format(record))  # type: ignore[method-assign]
    log = logging.getLogger("asyncio")
    log.addHandler(handler)
    try:
        yield
        gc.collect()
    finally:
        log.removeHandler(handler)
    assert reports == []


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Clock:
    """A clock at an uptime between a second and ten years, another one for each test."""
    return clock_for(request.node.nodeid)
