"""Real values files become settings with the same servers. The files are data beside the project, not a part of it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuspawner.cli.cluster.offline_spawner import share_connection
from gpuspawner.cli.compare import Scope
from gpuspawner.cli.compare.menu import draw_sample
from gpuspawner.cli.compare.sides import open_side
from gpuspawner.cli.convert import build_values, convert_source, read_profile_source, verify, write_values
from gpuspawner.cli.main import main
from gpuspawner.core.catalog.model import NO_RESOURCES
from gpuspawner.core.catalog.pod_gpus import classify_pod
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.cluster.decode import decode_pod
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.request.selection import validate
from gpuspawner.hub.config.offer import OfferFactory
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.settings.profiles import Effect

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("GPUSPAWNER_PROFILES") or ROOT.parent / "shared" / "profiles")
FILES = sorted(FOLDER.glob("*.yaml"))

pytestmark = pytest.mark.skipif(not FILES, reason="needs a folder of values files: GPUSPAWNER_PROFILES")


each_file = pytest.mark.parametrize("file", [pytest.param(file, id=file.name.partition(".")[0]) for file in FILES])


@each_file
def test_every_choice_of_a_real_list_gives_the_same_server(file: Path, tmp_path: Path):
    source = read_profile_source([str(file)], io.StringIO())
    converted = convert_source(source)
    values = build_values(source, converted)
    report = verify(source, converted, values=values, scope=Scope())
    assert [(each.pair.label, each.details) for each in report.results if each.outcome != "same"] == []
    assert [note for note in converted.notes if note.cause.effect is Effect.REFUSED] == []
    new = tmp_path / "converted.yaml"
    with new.open("w") as opened:
        write_values(values, opened, output="yaml")
    assert main(["check", "--strict", str(new)]) == 0
    assert main(["check", "--strict", str(file), str(new)]) == 0


@each_file
async def test_the_pod_of_every_choice_of_a_real_list_tells_its_gpus(file: Path):
    source = read_profile_source([str(file)], io.StringIO())
    converted = convert_source(source)
    settings = OfferFactory(parse_settings).parse(converted.settings)
    nodes = Inventory(reason="no cluster")
    catalog = assemble_catalog(settings.configured, nodes, table=settings.table, fallback_image="x", own=NO_RESOURCES)
    told, named = {}, {}
    async with ApiClient(Configuration(host="http://127.0.0.1:9")) as client:
        with share_connection(CoreV1Api(client)):
            side = open_side(source.values, is_helm=source.sorts_keys)
            for pick in draw_sample(side.profiles, limit=1000, seed=0).picks:
                options = side.make_options(pick)
                answer = await side.answer(options, [Person(name="ada", groups=frozenset(side.groups))])
                assert answer.server is not None
                pod = decode_pod(answer.server.manifest)
                assert pod is not None
                gpus = classify_pod(pod.requests, catalog, constraints=pod.constraints)
                selection = validate(converted.convert_options(options), catalog)
                told[pick.label], named[pick.label] = (gpus.gpu, gpus.count), (selection.gpu, selection.gpu_count)
    assert told == named
