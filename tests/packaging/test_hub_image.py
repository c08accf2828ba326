"""The two ways into zero-to-jupyterhub's hub image: helm-values/Dockerfile, and helm-values/without-an-image.yaml.

The image stands here as what its requirements pin. Its base, Debian's Python, is this machine's instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.support import nasty
from tests.cluster.support.pages import Visitor
from tests.fuzz.support import writing
from tests.fuzz.support.corpus import FORM_BODIES
from tests.unit.hub.real_hub import real_hub
from tests.unit.kube.watch_server import serve_watches

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
Z2JH = Path(os.environ.get("GPUSPAWNER_Z2JH") or ROOT.parent / "shared" / "z2jh")
PINS = Z2JH / "hub-image-requirements.txt"
# The pins are of the chart's main branch since July 2026. gpuspawner's imports have these other versions in images of
# releases, by images/hub/requirements.txt at their tags: https://github.com/jupyterhub/zero-to-jupyterhub-k8s
IMAGES: dict[str, dict[str, str]] = {
    "main branch": {},
    "4.4.0": {"jupyterhub-kubespawner": "7.0.0", "kubernetes-asyncio": "36.1.0", "tornado": "6.5.7"},
    "4.3.5": {
        "jupyterhub": "5.4.6",
        "jupyterhub-kubespawner": "7.0.0",
        "kubernetes-asyncio": "35.0.1",
        "aiohttp": "3.13.5",
        "sqlalchemy": "2.0.49",
        "tornado": "6.5.5",
        "traitlets": "5.15.0",
    },
    "4.2.0": {
        "jupyterhub": "5.3.0",
        "jupyterhub-kubespawner": "7.0.0",
        "kubernetes-asyncio": "32.3.0",
        "aiohttp": "3.11.16",
        "markupsafe": "3.0.2",
        "prometheus-client": "0.21.1",
        "pydantic": "2.11.3",
        "pydantic-core": "2.33.1",
        "pyyaml": "6.0.2",
        "sqlalchemy": "2.0.40",
        "tornado": "6.4.2",
        "traitlets": "5.14.3",
        "typing-extensions": "4.13.2",
    },
}
TOO_OLD = {"jupyterhub": "5.2.1", "jupyterhub-kubespawner": "7.0.0"}
COMPATIBILITY = ROOT / "docs/install/compatibility.md"
# Published as source only; what building it takes. JupyterHub uses it for PostgreSQL alone, and gpuspawner never.
NEEDS_A_PROGRAM = {"psycopg2": "pg_config"}

pytestmark = pytest.mark.skipif(
    not PINS.is_file(),
    reason=f"{PINS} is not there: put the hub image's requirements into a folder and its path into GPUSPAWNER_Z2JH",
)

# All in one: JupyterHub alone takes seconds to be imported.
LOOK = """
    import importlib, json, pkgutil
    import gpuspawner, yaml
    from gpuspawner._resources import data_dir
    from jupyterhub.app import JupyterHub
    from traitlets.config import Config

    modules = [module.name for module in pkgutil.walk_packages(gpuspawner.__path__, "gpuspawner.")]
    for name in modules:
        importlib.import_module(name)

    # The hub's own way to load its `spawner_class`.
    spawners = {}
    for name in ("gpuspawner.GPUSpawner", "gpu"):
        found = JupyterHub(config=Config(JupyterHub={"spawner_class": name})).spawner_class
        spawners[name] = f"{found.__module__}.{found.__name__}"

    from gpuspawner.core.cluster.state import Inventory
    from gpuspawner.core.discovery.build_catalog import assemble_catalog
    from gpuspawner.core.form.build import build_view
    from gpuspawner.hub.form.rendering import render
    from gpuspawner.settings import Settings

    values = yaml.safe_load((data_dir("helm-values") / "multi-vendor.yaml").read_text())
    settings = Settings.parse(values["hub"]["config"]["GPUSpawner"])
    catalog = assemble_catalog(
        settings.configured, Inventory(), table=settings.table, fallback_image=""
    )
    form = render(build_view(catalog, Inventory()))
    print(json.dumps({"file": gpuspawner.__file__, "modules": len(modules), "spawners": spawners, "form": form}))
"""
SPAWNER = "gpuspawner.hub.spawner.GPUSpawner"
IN_THE_FORM = ("NVIDIA A100 80 GB", "AMD Instinct MI300X", "Intel Max 1550", "<style", "<script")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command that has to succeed and give its output; a failure shows what it said."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    answer = subprocess.run(command, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}\n{answer.stdout}{answer.stderr}", pytrace=False)
    return answer.stdout


class HubImage:
    """An environment that holds what the hub image does, and pip, as that has."""

    def __init__(self, folder: Path, pinned: Mapping[str, str]) -> None:
        self.folder = folder
        self.programs = folder / "env/bin"
        left_out = {name for name, program in NEEDS_A_PROGRAM.items() if shutil.which(program) is None}
        pins = folder / "requirements.txt"
        versions = dict(line.split("==") for line in PINS.read_text().splitlines()) | dict(pinned)
        lines = [f"{name}=={version}" for name, version in versions.items() if name not in left_out]
        pins.write_text("\n".join(lines))
        run(UV, "venv", "--seed", "--python", sys.executable, folder / "env", cwd=folder)
        run(UV, "pip", "install", "--no-deps", "--python", self.programs / "python", "--requirement", pins, cwd=folder)

    def shell(self, script: str) -> str:
        """Run a script whose `python3` is the image's."""
        return run("sh", "-euc", script, cwd=self.folder, PATH=f"{self.programs}:{os.environ['PATH']}")

    def python(self, script: str, **environment: str) -> str:
        """Run ``script`` far from the checkout; a warning about our own code fails."""
        command = (self.programs / "python", "-W", "error:::gpuspawner", "-c", textwrap.dedent(script))
        return run(*command, cwd=self.folder, **environment)

    def packages(self) -> set[str]:
        """Return what is installed, with versions."""
        return set(run(UV, "pip", "freeze", "--python", self.programs / "python", cwd=self.folder).splitlines())


Image = Callable[[str], HubImage]


@pytest.fixture(
    scope="module",
    # The newest release of the chart.
    params=[pytest.param(name, marks=pytest.mark.smoke if name == "4.4.0" else ()) for name in IMAGES],
)
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return lambda name: HubImage(tmp_path_factory.mktemp(name), IMAGES[request.param])


def instructions() -> list[str]:
    """Return what the Dockerfile does, a line each."""
    text = (ROOT / "helm-values/Dockerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def step(wheel: Path) -> str:
    """Return the Dockerfile's one step, with a wheel at another place."""
    (line,) = (line.removeprefix("RUN ") for line in instructions() if line.startswith("RUN "))
    return line.replace("/tmp/gpuspawner/*.whl", shlex.quote(str(wheel)))


@pytest.fixture(scope="module")
def built(image: Image, wheel: Path) -> tuple[HubImage, set[str]]:
    """Return the image after the Dockerfile's one step, and what was installed before."""
    made = image("built")
    before = made.packages()
    made.shell(step(wheel))
    return made, before


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def charts_of_the_page() -> dict[str, list[str]]:
    """Return the rows of the page's table of charts by the chart's version: JupyterHub, KubeSpawner, Python."""
    section = COMPATIBILITY.read_text().partition("## zero-to-jupyterhub")[2].partition("\n## ")[0]
    rows = [cells(line) for line in section.splitlines() if line.startswith("| ")]
    return {name: versions[:3] for name, *versions in rows[1:]}


def charts_of_the_dockerfile() -> dict[str, list[str]]:
    """Return the rows of the comment's table, as those of the page."""
    text = (ROOT / "helm-values/Dockerfile").read_text()
    rows = re.findall(r"^#     (\d\S+) +(\S+) +(\S+) +(\S+)$", text, re.MULTILINE)
    return {chart: list(versions) for chart, *versions in rows}


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "helm-values/without-an-image.yaml").read_text())["hub"]
    return found


@pytest.fixture(scope="module")
def unpacked(image: Image, wheel: Path) -> tuple[HubImage, dict[str, str]]:
    """Return the image beside which the init container has run, and the environment that the values give the hub."""
    made = image("unpacked")
    (container,) = values()["initContainers"]
    folders = {mount["mountPath"]: made.folder / mount["name"] for mount in container["volumeMounts"]}
    for folder in folders.values():
        folder.mkdir()
    shutil.copy(wheel, folders["/wheel"])
    assert container["command"][:2] == ["sh", "-euc"]
    script = container["command"][2]
    environment = dict(values()["extraEnv"])
    for path, folder in folders.items():
        script = script.replace(path, str(folder))
        environment = {key: value.replace(path, str(folder)) for key, value in environment.items()}
    made.shell(script)
    return made, environment


def assert_everything_works(printed: str, *, below: Path) -> None:
    """Check that all modules can be imported, the hub finds the spawner by both names, and a form is rendered."""
    found = json.loads(printed)
    assert Path(found["file"]).is_relative_to(below)
    assert found["modules"] > 100
    assert found["spawners"] == {"gpuspawner.GPUSpawner": SPAWNER, "gpu": SPAWNER}
    assert [word for word in IN_THE_FORM if word not in found["form"]] == []


def test_the_dockerfile_adds_the_wheel_and_nothing_else(built: tuple[HubImage, set[str]], wheel: Path):
    made, before = built
    assert before <= made.packages()
    assert {line.partition(" @ ")[0] for line in made.packages() - before} == {"gpuspawner"}


def test_all_that_the_wheel_declares_is_there(built: tuple[HubImage, set[str]]):
    made, _ = built
    declared = """
        from importlib.metadata import requires, version
        from packaging.requirements import Requirement
        for text in requires("gpuspawner"):
            each = Requirement(text)
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                assert each.specifier.contains(version(each.name)), text
                print(each.name)
    """
    assert "jupyterhub-kubespawner" in made.python(declared).split()


def test_everything_works_over_the_pins(built: tuple[HubImage, set[str]]):
    made, _ = built
    assert_everything_works(made.python(LOOK), below=made.programs.parent)


# Tornado before 6.5 logs that it cannot read these, and passes on a form without fields, which is a valid choice.
READ_AS_NOTHING = {
    *("nothing", "no headers", "no name", "no line end", "line feeds alone", "other boundary", "boundary inside"),
    *("no end", "another disposition"),
}


def send_nasty_requests(visitor: Visitor) -> dict[str, int]:
    """Return the statuses of requests that a hub did not refuse; older hubs show the refusal with status 200."""
    visitor.log_in("nasty")
    pages = {f"form: {name}": nasty.send(visitor, FORM_BODIES[name]) for name in nasty.WRONG_FORMS}
    for name, body in ((name, body) for name, body in nasty.uploads() if name not in READ_AS_NOTHING):
        pages[f"upload: {name}"] = nasty.send(visitor, body, content_type=writing.MULTIPART)
    return nasty.accepted({name: page for name, page in pages.items() if not page.soup.select("#gpuspawner-errors")})


async def test_nasty_requests_are_refused_over_the_pins(built: tuple[HubImage, set[str]], tmp_path: Path):
    python = built[0].programs / "python"
    settings = {"GPUSpawner": {"images": {"lab": {"image": "quay.io/jupyter/base:1"}}}}
    async with serve_watches() as api, real_hub(tmp_path, api=api.url, config=settings, python=python) as hub:
        visitor, used_s = Visitor(hub.url), []
        accepted = await asyncio.to_thread(send_nasty_requests, visitor)
        for path in ("/hub/login", "/hub/spawn"):
            began_s = hub.read_cpu_s()
            body = FORM_BODIES["a hundred thousand names"]
            await asyncio.to_thread(partial(nasty.send, visitor, body, path=path))
            used_s.append(hub.read_cpu_s() - began_s)
    # Reading so many fields takes tornado most of a second, unless its version has a limit.
    login_s, form_s = used_s
    assert (accepted, form_s < 2 * login_s + 0.5) == ({}, True), used_s


def test_the_image_has_the_versions_that_the_page_says(
    built: tuple[HubImage, set[str]], request: pytest.FixtureRequest
):
    made, _ = built
    jupyterhub, kubespawner, _ = charts_of_the_page()[request.node.callspec.params["image"]]
    assert made.packages() >= {f"jupyterhub=={jupyterhub}", f"jupyterhub-kubespawner=={kubespawner}"}


def test_an_image_that_is_too_old_is_no_image(wheel: Path, tmp_path: Path):
    old = HubImage(tmp_path, TOO_OLD)
    command = ["sh", "-uc", step(wheel)]  # as Docker does
    environment = os.environ | {"PATH": f"{old.programs}:{os.environ['PATH']}"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert re.search(r"^gpuspawner .*jupyterhub<7,>=5\.3.*5\.2\.1", ended.stdout, re.MULTILINE)


@pytest.mark.smoke
def test_the_tables_name_the_same_charts():
    page = charts_of_the_page()
    assert {chart: page[chart] for chart in charts_of_the_dockerfile()} == charts_of_the_dockerfile()
    assert {*charts_of_the_dockerfile(), "main branch"} == set(IMAGES)


@pytest.mark.smoke
def test_the_pins_of_the_main_branch_are_those_that_the_page_says():
    pins = dict(line.split("==") for line in PINS.read_text().splitlines())
    assert charts_of_the_page()["main branch"][:2] == [pins["jupyterhub"], pins["jupyterhub-kubespawner"]]


def test_the_command_is_there(built: tuple[HubImage, set[str]]):
    made, _ = built
    assert made.shell("gpuspawner --version").startswith("gpuspawner ")


@pytest.mark.smoke
def test_the_dockerfile_ends_as_a_user_other_than_root():
    users = [line for line in instructions() if line.startswith("USER ")]
    assert users == ["USER root", "USER 1000"]
    assert instructions()[-1] == users[-1]


@pytest.mark.smoke
def test_the_dockerfile_stands_on_the_charts_image():
    assert instructions()[:2] == ["ARG CHART_VERSION=4.4.0", "FROM quay.io/jupyterhub/k8s-hub:${CHART_VERSION}"]


def test_everything_works_without_an_image(unpacked: tuple[HubImage, dict[str, str]]):
    made, environment = unpacked
    assert_everything_works(made.python(LOOK, **environment), below=Path(environment["PYTHONPATH"]))


def test_without_an_image_the_environment_stays_as_it_was(unpacked: tuple[HubImage, dict[str, str]]):
    made, _ = unpacked
    assert not any(line.startswith("gpuspawner") for line in made.packages())


@pytest.mark.smoke
def test_the_hub_and_its_init_container_are_the_same_image():
    hub = values()
    (container,) = hub["initContainers"]
    assert container["image"] == "{name}:{tag}".format(**hub["image"])


@pytest.mark.smoke
def test_mounted_volumes_exist():
    hub = values()
    (container,) = hub["initContainers"]
    volumes = {volume["name"] for volume in hub["extraVolumes"]}
    mounts = [*container["volumeMounts"], *hub["extraVolumeMounts"]]
    assert {mount["name"] for mount in mounts} == volumes
    assert hub["extraEnv"]["PYTHONPATH"] in {mount["mountPath"] for mount in hub["extraVolumeMounts"]}


@pytest.mark.smoke
def test_the_wheel_fits_into_a_configmap(wheel: Path):
    # https://kubernetes.io/docs/concepts/configuration/configmap/
    assert wheel.stat().st_size < 2**20
