from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.common.findings import Severity
from gpuspawner.cli.values.trait_sources import (
    TraitSource,
    find_trait_source,
    list_pod_tolerations,
    make_finding,
)
from gpuspawner.core.cluster.model import Toleration
from tests.unit.cli_support import written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("singleuser: {nodeSelector: {a: b}}", TraitSource(("singleuser", "nodeSelector"), {"a": "b"})),
        (
            "{singleuser: {nodeSelector: {a: b}}, hub: {config: {KubeSpawner: {node_selector: {c: d}}}}}",
            TraitSource(("hub", "config", "KubeSpawner", "node_selector"), {"c": "d"}),
        ),
        ("j: {singleuser: {nodeSelector: {a: b}}}", TraitSource(("j", "singleuser", "nodeSelector"), {"a": "b"})),
        ("singleuser: {nodeSelector: null}", None),
        ("singleuser: 3", None),
    ],
)
def test_what_hub_config_says_takes_the_place_of_the_charts_values(text: str, said: TraitSource | None, tmp_path: Path):
    assert find_trait_source(written(tmp_path, text), "node_selector") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hub: {config: {Spawner: {start_timeout: 900}}}", None),
        (
            "{singleuser: {startTimeout: 60}, hub: {config: {Spawner: {start_timeout: 900}}}}",
            TraitSource(("singleuser", "startTimeout"), 60),
        ),
        (
            "{singleuser: {startTimeout: null}, hub: {config: {Spawner: {start_timeout: 900}}}}",
            TraitSource(("hub", "config", "Spawner", "start_timeout"), 900),
        ),
    ],
)
def test_the_section_of_the_base_class_counts_only_where_the_chart_says_nothing(
    text: str, said: TraitSource | None, tmp_path: Path
):
    assert find_trait_source(written(tmp_path, text), "start_timeout") == said


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a: 1", ["hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated"]),
        ("{singleuser: {extraTolerations: [{key: x}]}, scheduling: {userPods: {tolerations: []}}}", ["x"]),
        ("hub: {config: {KubeSpawner: {tolerations: {b: {key: z}}}}}", ["z"]),
        ("{scheduling: {userPods: {tolerations: []}}, hub: {config: {Spawner: {tolerations: [{key: own}]}}}}", ["own"]),
        (
            "{hub: {config: {Spawner: {tolerations: [{key: own}]}}}}",
            ["hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated"],
        ),
        ("{singleuser: {}, scheduling: {userPods: {tolerations: null}}}", []),
        ("j: {singleuser: {}, scheduling: {userPods: {tolerations: [{key: x}]}}}", ["x"]),
    ],
)
def test_tolerations_of_all_servers_are_those_of_the_chart(text: str, keys: list[str], tmp_path: Path):
    assert [each.key for each in list_pod_tolerations(written(tmp_path, text))] == keys


def test_a_toleration_is_read_whole(tmp_path: Path):
    text = "scheduling: {userPods: {tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute}]}}"
    assert list_pod_tolerations(written(tmp_path, text)) == (
        Toleration(key="a", operator="Equal", value="b", effect="NoExecute"),
    )


def test_a_finding_has_the_place_of_its_path(tmp_path: Path):
    found = make_finding(written(tmp_path, "a: {b: 1}"), ("a", "b"), severity=Severity.WARNING, code="c", message="m")
    assert (found.path, found.place and found.place.column) == ("a.b", 8)
