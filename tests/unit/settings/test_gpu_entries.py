from __future__ import annotations

import pytest

from gpuspawner.settings.gpu import GPUEntry


@pytest.mark.parametrize("written", ["T4", ["T4"]])
def test_one_allowed_value_needs_no_list(written: object):
    assert GPUEntry.model_validate({"match": {"gpu": written}}).match == {"gpu": ["T4"]}
