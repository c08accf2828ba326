from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.check.misplaced_values import find_misplaced_values
from gpuspawner.cli.common.findings import Severity
from tests.unit.cli_support import written

BELOW = "jupyterhub: {hub: {config: {GPUSpawner: {cpu: {max: 4}}}}}"
DEEP = "basehub: {jupyterhub: {hub: {config: {GPUSpawner: {cpu: {max: 4}}}}}}"
TOP = "hub: {config: {GPUSpawner: {cpu: {max: 4}}}}"


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (BELOW, "\nJupyterhub: {hub: {config: {GPUSpawner: {foo: 1}}}}", [("Jupyterhub", "1.yaml", 2, Severity.ERROR)]),
        (BELOW, "singleuser: {cpu: {limit: 1}}", [("singleuser", "1.yaml", 1, Severity.ERROR)]),
        (BELOW, "hub: {config: {JupyterHub: {}}}", [("hub", "1.yaml", 1, Severity.ERROR)]),
        (BELOW, TOP, [("jupyterhub", "0.yaml", 1, Severity.ERROR)]),
        (DEEP, "basehub: {hub: {config: {}}}", [("basehub.hub", "1.yaml", 1, Severity.ERROR)]),
        (DEEP, "singleuser: {}", [("singleuser", "1.yaml", 1, Severity.ERROR)]),
        (DEEP, "basehub: {z2jh: {singleuser: {}}}", [("basehub.z2jh", "1.yaml", 1, Severity.WARNING)]),
        (DEEP, "basehub: {nfs: {enabled: true}, custom: {hub: {config: {}}}}\nproxy: {}", []),
        (TOP, "z2jh: {singleuser: {}}", [("z2jh", "1.yaml", 1, Severity.WARNING)]),
        (BELOW, "staging: {hub: {config: {GPUSpawner: {}}}}", [("staging", "1.yaml", 1, Severity.WARNING)]),
        (BELOW, "prometheus: {server: {x: 1}}\nistio: {hub: docker.io}\nproxy: {x: 1}", []),
        (TOP, "singleuser: {}\nproxy: {}\ncustom: {singleuser: {}}", []),
    ],
)
def test_values_that_the_chart_never_gets_are_reported(
    lower: str, upper: str, expected: list[tuple[str, str, int, Severity]], tmp_path: Path
):
    found = [
        (each.path, Path(each.place.file).name, each.place.line, each.severity)
        for each in find_misplaced_values(written(tmp_path, lower, upper))
        if each.place
    ]
    assert found == expected


def test_other_keys_may_be_anything(tmp_path: Path):
    assert list(find_misplaced_values(written(tmp_path, f"tags: {{a: 1}}\n{TOP}", "tags: hello\nglobal: 3"))) == []
