from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.errors import DevclusterError
from devcluster.run_dir import Addresses, RunDir, write


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "a.b", "-a", "a-", "../up", "a/b", "x" * 33, "a\n"])
def test_a_name_that_is_no_dns_label_is_refused(name: str) -> None:
    with pytest.raises(DevclusterError, match="is no cluster name"):
        RunDir.named(name)


@pytest.mark.parametrize("name", ["a", "0", "test-1", "x" * 32])
def test_a_dns_label_names_a_cluster(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSPAWNER_STATE_DIR", str(tmp_path))
    assert tmp_path / name == RunDir.named(name).path


def test_equal_names_in_two_state_folders_share_neither_bridge_nor_cgroup() -> None:
    one, other = RunDir(Path("/a/demo")), RunDir(Path("/b/demo"))
    assert {one.bridge, one.cgroup}.isdisjoint({other.bridge, other.cgroup})


def test_the_kernel_takes_the_bridge_name() -> None:
    assert len(RunDir(Path("/a/" + "x" * 32)).bridge) <= 15


def test_addresses_are_found_again(tmp_path: Path) -> None:
    addresses = Addresses(number=7, api_port=6443, etcd_port=1, etcd_peer_port=2, kubelet_port=3)
    RunDir(tmp_path).save(addresses)
    assert addresses == RunDir(tmp_path).load()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": 1, "more": 2}'])
def test_a_broken_record_of_addresses_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "addresses.json").write_text(text)
    assert RunDir(tmp_path).load() is None


def test_no_two_clusters_share_an_address() -> None:
    def of(number: int) -> set[str]:
        one = Addresses(number=number)
        return {one.gateway, one.loopback, one.pod_subnet, one.service_subnet, one.simulated_subnet}

    assert not of(1) & of(2)


def test_a_written_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = write(tmp_path / "key", "secret")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("secret", 0o600)
    assert [path] == list(tmp_path.iterdir())
