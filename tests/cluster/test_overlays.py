"""Each overlay in ``helm-values`` on a cluster like the one it is for: what is offered starts, and where it should.

The nodes are simulated, with labels and taints as clouds, operators and device plugins set them; the scheduler is real.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import CHECKOUT
from gpuspawner.cli.values.helm_values import load_values
from tests.cluster.support import cloud as clouds
from tests.cluster.support.trial import Trial, api, cluster, image_for, on_trial

__all__ = ["api", "cluster"]

FOLDER = CHECKOUT / "helm-values"
BASE = "gpuspawner"
NO_OVERLAYS = {BASE, "rbac", "without-an-image"}
OVERLAYS = sorted({path.stem for path in FOLDER.glob("*.yaml")} - NO_OVERLAYS)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.smoke if name == "gke" else ()) for name in (BASE, *OVERLAYS)],
)
def trial(
    request: pytest.FixtureRequest, cluster: Cluster, api: ApiClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trial]:
    """Merge an overlay over the base, as ``helm upgrade -f gpuspawner.yaml -f NAME.yaml`` does, and run a hub."""
    name = str(request.param)
    with on_trial(
        cluster,
        api,
        namespace=f"overlay-{name}",
        values=load_values([str(FOLDER / f"{file}.yaml") for file in dict.fromkeys((BASE, name))]),
        cloud=clouds.load(name),
        folder=tmp_path_factory.mktemp(name),
    ) as running:
        yield running


def test_the_form_offers_the_types_and_says_when_they_start(trial: Trial) -> None:
    page = trial.form()
    named = {slug for slug, entry in trial.values.settings.get("gpus", {}).items() if entry.get("enabled", True)}

    said = {}
    for slug in page.offered():
        count = trial.cloud.types[slug].count if slug in trial.cloud.types else 1
        said[slug] = trial.outcome(page, {"image": image_for(page, slug), "gpu": slug, "gpu_count": count})

    assert said == {slug: trial.starts(slug) for slug in trial.cloud.types}
    assert named <= set(said)


def test_every_preset_can_start(trial: Trial) -> None:
    page = trial.form()

    said = trial.preset_outcomes(page)

    assert said == {slug: trial.starts(str(choice.get("gpu", ""))) for slug, choice in trial.presets().items()}


def test_a_server_of_each_type_lands_on_its_nodes_and_can_on_no_others(trial: Trial) -> None:
    trial.check_places()
