from __future__ import annotations

import socket
from pathlib import Path

import pytest

from devcluster import ports
from devcluster.errors import DevclusterError
from devcluster.ports import first_free_port, free_ports

HOST = "127.0.0.1"


def test_ports_differ_and_none_is_one_that_the_kernel_gives_to_outgoing_connections() -> None:
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = free_ports([HOST] * 5)
    assert len(found) == len(set(found)) == 5
    assert max(found) < lowest_outgoing


def test_ports_differ_also_where_all_searches_begin_at_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports.secrets, "randbelow", lambda _: 7)
    assert len(set(free_ports([HOST] * 3))) == 3


def test_a_port_that_is_taken_on_all_addresses_is_passed_over() -> None:
    with socket.create_server(("0.0.0.0", first_free_port("0.0.0.0", 20_000))) as other:
        taken = other.getsockname()[1]
        assert taken < first_free_port(HOST, taken) < taken + 100


def test_an_address_that_is_not_this_machines_is_said() -> None:
    with pytest.raises(DevclusterError, match=r"cannot listen on 203\.0\.113\.1: Cannot assign requested address"):
        first_free_port("203.0.113.1", 6443)
