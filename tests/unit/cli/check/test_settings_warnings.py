from __future__ import annotations

import pytest
import yaml

from gpuspawner.cli.check.settings_warnings import find_oversized_limits
from gpuspawner.settings import Settings

GPU = "resource: nvidia.com/gpu"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("cpu: {max: 4000}", ["cpu.max"]),
        ("cpu: {max: 4, step: 8}", ["cpu.step"]),
        ("cpu: {min: 4, max: 4, step: 1}", []),
        ("memory: {max: 128T}", ["memory.max"]),
        ("memory: {max: 16G}\nshared_memory: {max: 32G}", ["shared_memory.max"]),
        ("run_time: {max: 900d}", ["run_time.max"]),
        (f"gpus: {{a: {{{GPU}, max_count: 17}}}}", ["gpus.a.max_count"]),
        (f"gpus: {{a: {{{GPU}.shared, max_count: 17}}}}", []),
        (f"gpus: {{a: {{{GPU}, memory: 80T}}}}", ["gpus.a.memory"]),
        (f"gpus: {{a: {{{GPU}, min_memory: 80T}}}}", ["gpus.a.min_memory"]),
        (f"gpus: {{a: {{{GPU}, scale_up: {{max_nodes: 99999, gpus_per_node: 64, minutes: 9999}}}}}}",
         [f"gpus.a.scale_up.{key}" for key in ("gpus_per_node", "max_nodes", "minutes")]),
        ("accelerators: {x: {name: X, vendor: nvidia, memory: 80T, labels: {gfd: [X]}}}", ["accelerators.x.memory"]),
        ("policy: {groups: {a: {cpu: {max: 4000}, memory: {max: unlimited}}}}", ["policy.groups.a.cpu.max"]),
        ("policy: {users: {a: {max_runtime: 900d, gpus: {t4: {max_runtime: 9000h}}}}}",
         ["policy.users.a.max_runtime", "policy.users.a.gpus.t4.max_runtime"]),
        ("policy: {users: {a: {max_runtime: unlimited}}}", []),
    ],
)  # fmt: skip
def test_a_limit_that_nothing_can_hold_is_reported(text: str, fields: list[str]):
    settings = Settings.parse(yaml.safe_load(text))
    assert [problem.field for problem in find_oversized_limits(settings.model, settings.build_configured())] == fields
