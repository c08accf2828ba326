from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.errors import DevclusterError
from devcluster.simulated import Pool, load


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no mapping `pools`"),
        ("pools: [a]", "has no mapping `pools`"),
        ("pools: {a: {count: [", "is no YAML"),
        ("pools: {a: 3}", "pools.a is no mapping"),
        ("pools: {a: {cuont: 3}}", "pools.a.cuont is unknown; there are count, allocatable, labels, taints"),
        ("pools: {a: {count: many}}", "pools.a.count is no int"),
        ("pools: {a: {count: 2}}", "pools.a.allocatable needs cpu and memory"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(DevclusterError) as raised:
        load(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DevclusterError, match=str(tmp_path / "none")):
        load(tmp_path / "none")


def test_a_node_that_changes_in_the_file_is_distinguished() -> None:
    small, large = (next(Pool(name="a", count=1, allocatable={"cpu": cpu}).nodes()) for cpu in ("1", "2"))
    assert small["metadata"]["annotations"] != large["metadata"]["annotations"]
