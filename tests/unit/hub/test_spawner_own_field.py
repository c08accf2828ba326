"""docs/how-to/own-field.md: the field of its example is in the form, and reaches the pod."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from bs4 import BeautifulSoup
from tornado import web
from traitlets.config import Config

from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import GPU_OPTIONS, begin, environment

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/own-field.md"
# The environment with the older JupyterHub has no Markdown parser; the page has one block of YAML, at its margin.
HUB = yaml.safe_load(re.split(r"^```.*\n", PAGE.read_text(), flags=re.MULTILINE)[1])["hub"]


@pytest.fixture
async def site(make_spawner: MakeSpawner, tmp_path: Path) -> Any:
    """Make a spawner with the example's values; its template is below a folder of the test."""
    template = HUB["extraFiles"]["own-field-template"]
    (folder,) = HUB["config"]["KubeSpawner"]["additional_profile_form_template_paths"]
    file = tmp_path / Path(template["mountPath"]).relative_to(folder)
    file.parent.mkdir()
    file.write_text(template["stringData"])
    config = Config()
    exec(HUB["extraConfig"]["own-field"], {"c": config})
    kubespawner = {**config.KubeSpawner, "additional_profile_form_template_paths": [str(tmp_path)]}
    return make_spawner(settings={**SETTINGS, **HUB["config"]["GPUSpawner"]}, kubespawner=kubespawner)


async def test_the_form_has_the_field(site: Any):
    page = BeautifulSoup(await site.get_options_form(), "html.parser")
    assert [option["value"] for option in page.select("select[name=project] option")] == ["", "heat-pumps", "wind"]


async def test_the_fields_value_reaches_the_pod(site: Any):
    sent = {name: [str(value)] for name, value in GPU_OPTIONS.items()}
    options = await site.run_options_from_form({**sent, "project": ["wind"]})
    await begin(site, options)
    pod = site.modify_pod_hook(site, await site.get_pod_manifest())
    found = site.api.api_client.sanitize_for_serialization(pod)
    assert found["metadata"]["labels"]["example.org/project"] == "wind"
    assert environment(found)["PROJECT"] == "wind"
    assert found["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"


@pytest.mark.parametrize("project", [{}, {"project": "x"}, {"project": ["wind"]}], ids=["none", "unknown", "a list"])
async def test_any_other_value_is_refused(site: Any, project: dict[str, Any]):
    with pytest.raises(web.HTTPError, match="Pick a project"):
        await begin(site, {**GPU_OPTIONS, **project})
