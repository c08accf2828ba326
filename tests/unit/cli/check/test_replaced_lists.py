from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.check.replaced_lists import find_replaced_lists
from gpuspawner.cli.common.findings import Severity
from gpuspawner.cli.values.chart_config import CHART_KEYS
from tests.unit.cli_support import written

QUIET = "singleuser: {storage: {type: none}, cloudMetadata: {blockWithIptables: false}}"
SITE = """
    singleuser:
      storage:
        extraVolumes: [{name: shared, emptyDir: {}}]
        extraVolumeMounts: {a: {name: shared, mountPath: /shared}}
      extraFiles: {news: {mountPath: /news}}
      extraTolerations: [{key: site, operator: Exists}]
      extraEnv: {SITE: a, COURSE: b}
      nodeSelector: {pool: users}
      extraLabels: {team: a}
      initContainers: [{name: copy, image: a}]
      extraResource: {limits: {site/license: 1}}
      extraNodeAffinity: {required: [{matchExpressions: [{key: a, operator: Exists}]}]}
    imagePullSecrets: [{name: registry}]
"""


def losses(folder: Path, passed: str, *files: str, section: str = "KubeSpawner") -> dict[str, tuple[Severity, str]]:
    values = written(folder, *files, f"hub: {{config: {{{section}: {{{passed}}}}}}}")
    found = list(find_replaced_lists(values))
    prefix = f"hub.config.{section}."
    return {
        each.path.removeprefix(prefix): (each.severity, each.message.partition("Lost: ")[2].partition(". Move")[0])
        for each in found
    }


@pytest.mark.parametrize(
    ("passed", "lost"),
    [
        (
            "volumes: {a: {name: a, emptyDir: {}}}",
            "singleuser.storage.extraVolumes (shared); singleuser.storage (the home of each user); "
            "singleuser.extraFiles (news)",
        ),
        (
            "volume_mounts: [{name: a, mountPath: /a}]",
            "singleuser.storage.extraVolumeMounts (a); singleuser.storage (the home of each user); "
            "singleuser.extraFiles (news)",
        ),
        (
            "tolerations: []",
            "singleuser.extraTolerations (site); "
            "scheduling.userPods.tolerations (hub.jupyter.org/dedicated, hub.jupyter.org_dedicated)",
        ),
        ("environment: {COURSE: c}", "singleuser.extraEnv (SITE)"),
        ("node_selector: {gpu: a}", "singleuser.nodeSelector (pool)"),
        ("extra_labels: {}", "singleuser.extraLabels (hub.jupyter.org/network-access-hub, team)"),
        (
            "init_containers: []",
            "singleuser.initContainers (copy); singleuser.cloudMetadata.blockWithIptables "
            "(the container that keeps servers from the cloud's metadata)",
        ),
        ("extra_resource_limits: {a/b: 1}", "singleuser.extraResource.limits (site/license)"),
        ("image_pull_secrets: [{name: mine}]", "imagePullSecrets (registry)"),
    ],
    ids=lambda text: text.partition(":")[0],
)
@pytest.mark.parametrize("section", ["KubeSpawner", "GPUSpawner"])
def test_what_a_passed_value_takes_from_the_charts_is_named(tmp_path: Path, passed: str, lost: str, section: str):
    trait = passed.partition(":")[0]
    assert losses(tmp_path, passed, SITE, section=section) == {trait: (Severity.WARNING, lost)}


@pytest.mark.parametrize(
    "passed",
    [
        "volumes: [{name: shared, emptyDir: {}}, {name: home, persistentVolumeClaim: {claimName: a}}]",
        "volume_mounts: [{name: shared, mountPath: /shared}, {name: home, mountPath: /home/jovyan}]",
        "environment: {SITE: a, COURSE: b, MORE: c}",
        "extra_labels: {hub.jupyter.org/network-access-hub: 'true', team: b}",
        "node_selector: {pool: others}",
        "profile_list: []",
        "uid: 5",
    ],
    ids=lambda text: text.partition(":")[0],
)
def test_a_passed_value_that_repeats_the_charts_loses_nothing(tmp_path: Path, passed: str):
    assert losses(tmp_path, passed, SITE.replace("extraFiles", "ignored")) == {}


def test_a_loss_of_rarely_needed_defaults_is_a_hint(tmp_path: Path):
    found = losses(tmp_path, "tolerations: [], node_affinity_preferred: []", QUIET)
    assert {trait: severity for trait, (severity, _) in found.items()} == {
        "tolerations": Severity.HINT,
        "node_affinity_preferred": Severity.HINT,
    }


def test_a_required_purpose_of_nodes_that_is_lost_is_a_warning(tmp_path: Path):
    purpose = "scheduling: {userPods: {nodeAffinity: {matchNodePurpose: require}}}"
    found = losses(tmp_path, "node_affinity_required: []", purpose)
    assert found["node_affinity_required"] == (
        Severity.WARNING,
        "scheduling.userPods.nodeAffinity.matchNodePurpose (require)",
    )


def test_where_the_chart_sets_nothing_nothing_is_lost(tmp_path: Path):
    lists = [trait for trait in CHART_KEYS if trait not in ("node_affinity_preferred", "profile_list")]
    assert losses(tmp_path, ", ".join(f"{trait}: {{a: b}}" for trait in lists), QUIET) == {}


def test_a_section_over_which_the_chart_wins_replaces_nothing(tmp_path: Path):
    assert losses(tmp_path, "environment: {A: b}", SITE, section="Spawner") == {}
