"""A state folder of a test module's own, so that its clusters share no state with others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import Cluster


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep this module's clusters in a folder of their own, and leave none of them."""
    folder = tmp_path_factory.mktemp("clusters") / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSPAWNER_STATE_DIR", str(folder))
        yield folder
        for name in Cluster.names():
            Cluster.remove(name)
