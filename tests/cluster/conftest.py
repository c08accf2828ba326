"""Fixtures of the cluster tests; see tests/cluster/support/fixtures.py."""

from __future__ import annotations

from tests.cluster.support.fixtures import api, cluster, hub, pods, pytest_runtest_makereport, registry, servers

__all__ = ["api", "cluster", "hub", "pods", "pytest_runtest_makereport", "registry", "servers"]
