"""cgroup trees as plain folders: what devcluster writes into them, on either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import cgroups
from devcluster.errors import DevclusterError
from devcluster.run_dir import RunDir

RUN_DIR = RunDir(Path("/state/demo"))
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    for name in (*CONTROLLERS, "devices"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0")
    return tmp_path


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("memory pids")
    return tmp_path


def test_version_1_gets_a_cgroup_in_every_hierarchy(version_1: Path) -> None:
    cgroups.create(RUN_DIR, version_1)
    assert {path.parent.name for path in version_1.glob(f"*/{RUN_DIR.cgroup}")} == {*CONTROLLERS, "devices"}


def test_version_1_gets_its_parents_processors_so_that_processes_may_enter(version_1: Path) -> None:
    cgroups.create(RUN_DIR, version_1)
    folder = version_1 / "cpuset" / RUN_DIR.cgroup
    assert ((folder / "cpuset.cpus").read_text(), (folder / "cpuset.mems").read_text()) == ("0-1", "0")


def test_version_1_without_a_controller_says_which_one_is_missing(version_1: Path) -> None:
    (version_1 / "pids" / "cgroup.procs").unlink()
    (version_1 / "pids").rmdir()
    with pytest.raises(DevclusterError, match=r"not mounted below .*: pids"):
        cgroups.create(RUN_DIR, version_1)


def test_version_2_gets_one_cgroup_with_the_controllers_it_lacks(version_2: Path) -> None:
    cgroups.create(RUN_DIR, version_2)
    assert (version_2 / RUN_DIR.cgroup).is_dir()
    assert (version_2 / "cgroup.subtree_control").read_text() == "+cpu +cpuset"


def test_version_2_hands_down_huge_pages_where_the_kernel_has_them(version_2: Path) -> None:
    (version_2 / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids")
    (version_2 / "cgroup.subtree_control").write_text("cpu cpuset memory pids")
    cgroups.create(RUN_DIR, version_2)
    assert (version_2 / "cgroup.subtree_control").read_text() == "+hugetlb"


def test_version_2_without_a_controller_says_which_one_is_missing(version_2: Path) -> None:
    (version_2 / "cgroup.controllers").write_text("cpu memory pids")
    with pytest.raises(DevclusterError, match="offers no cgroup controllers cpuset"):
        cgroups.create(RUN_DIR, version_2)


def test_removing_takes_what_pods_left_below(version_2: Path) -> None:
    (version_2 / RUN_DIR.cgroup / "kubepods" / "besteffort" / "pod1").mkdir(parents=True)
    cgroups.remove(RUN_DIR, version_2)
    assert not (version_2 / RUN_DIR.cgroup).exists()


def test_removing_twice_is_no_error(version_1: Path) -> None:
    cgroups.remove(RUN_DIR, version_1)
    cgroups.remove(RUN_DIR, version_1)


def test_processes_are_found_at_every_depth(version_2: Path) -> None:
    deep = version_2 / RUN_DIR.cgroup / "kubepods" / "pod1"
    deep.mkdir(parents=True)
    (deep / "cgroup.procs").write_text("12\n34\n")
    assert cgroups.processes(RUN_DIR, version_2) == {12, 34}
