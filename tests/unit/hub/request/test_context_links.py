from __future__ import annotations

import jupyterhub
import pytest
from jupyterhub.handlers.pages import SpawnHandler

from gpuspawner.hub.request.context import LINK_PREFIX


@pytest.mark.skipif(jupyterhub.version_info < (6,), reason="JupyterHub 5 has no prefix to take away")
def test_jupyterhub_takes_the_prefix_away_without_a_warning(caplog: pytest.LogCaptureFixture):
    handler = SpawnHandler.__new__(SpawnHandler)
    assert handler._get_user_options({f"{LINK_PREFIX}gpu": ["a100"]}) == {"gpu": ["a100"]}
    assert caplog.records == []


@pytest.mark.skipif(jupyterhub.version_info >= (6,), reason="JupyterHub 6 wants a prefix")
def test_before_jupyterhub_6_names_are_bare():
    assert LINK_PREFIX == ""
