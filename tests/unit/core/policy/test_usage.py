"""Usage of all servers except one."""

from __future__ import annotations

from gpuspawner.core.policy.usage import RemainingQuota, ServerUsage, Usage, sum_usage

ADA, ADAS_OTHER = (ServerUsage(owner="ada", name=name, gpu="t4", count=2, pools=("p", "q")) for name in ("", "other"))
BOB = ServerUsage(owner="bob", name="", gpu="a100", count=3, pools=("p",))
EVE = ServerUsage(owner="eve", name="other")


def test_a_server_does_not_stand_in_its_own_way():
    found = sum_usage("ada", [ADA, ADAS_OTHER, BOB, EVE], excluding="")
    assert found == Usage(own=(ADAS_OTHER,), pools={"p": 5, "q": 2})


def test_what_a_quota_leaves_and_what_is_not_known_is_passed_on():
    quota = RemainingQuota(left={"pods": 1})
    assert sum_usage("ada", [], excluding="", quota=quota, known=False) == Usage(quota=quota, known=False)
