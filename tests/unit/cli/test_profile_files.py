"""Real profile lists without settings of gpuspawner: the pods of every choice are KubeSpawner's own.

The files are data beside the project, not a part of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api
from kubespawner import KubeSpawner

from gpuspawner.cli.cluster.offline_spawner import make_offline_spawner, share_connection
from gpuspawner.cli.diff.choices import list_choices
from gpuspawner.cli.diff.sides import open_side
from gpuspawner.cli.values.chart_config import build_spawner_config
from gpuspawner.cli.values.helm_values import load_values
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.hub.pod.preview import serialize_pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.preflight import draft_pod

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("GPUSPAWNER_PROFILES") or ROOT.parent / "shared" / "profiles")
FILES = sorted(FOLDER.glob("*.yaml"))

pytestmark = pytest.mark.skipif(not FILES, reason="needs a folder of values files: GPUSPAWNER_PROFILES")


async def build_pod(kind: type[Any], config: Any, options: dict[str, object]) -> dict[str, Any]:
    """Return the pod of a choice, without the annotations of gpuspawner."""
    spawner: Any = make_offline_spawner(kind, config=config, person=Person(name="ada"))
    spawner.user_options = options
    await spawner.load_user_options()
    pod = serialize_pod(spawner, await draft_pod(spawner))
    annotations = pod["metadata"]["annotations"]
    pod["metadata"]["annotations"] = {
        name: value for name, value in annotations.items() if not name.startswith(ANNOTATION_PREFIX)
    }
    return pod


@pytest.mark.parametrize("file", [pytest.param(file, id=file.name.partition(".")[0]) for file in FILES])
async def test_with_another_class_alone_every_choice_of_a_real_list_gives_kubespawners_pod(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    values = load_values([str(file)])
    monkeypatch.setattr(GPUSpawner, "capacity_timeout", 0.01)  # there is no cluster
    pods: dict[str, list[dict[str, Any]]] = {}
    async with ApiClient(Configuration(host="http://127.0.0.1:9")) as client:
        with share_connection(CoreV1Api(client)):
            config = build_spawner_config(values.chart, namespace="default")
            side = open_side(values)
            for choice in list_choices(side.menus):
                options = choice.find_options(side.menus)
                pods[choice.label] = [await build_pod(kind, config, options) for kind in (KubeSpawner, GPUSpawner)]
            await GPUSpawner.offer_factory.stop()
    assert pods != {}
    assert [label for label, (expected, actual) in pods.items() if expected != actual] == []
