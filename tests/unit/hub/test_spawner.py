"""The spawner as JupyterHub calls it: the form, what was sent, the gate, and what Kubernetes refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from tornado import web
from traitlets import Dict, HasTraits, Int, Unicode
from traitlets.config import Config

from gpuspawner.hub.errors import SEE_FORM
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.starts import begin, environment, pod_of
from tests.unit.kube.watch_server import REVIEWS, WatchServer

FORM = {"image": ["pytorch"], "cpu": ["4"], "memory": ["16"], "gpu": ["a100"], "gpu_count": ["2"]}


async def read_form(spawner: GPUSpawner, form: dict[str, Any]) -> Any:
    return await maybe_future(spawner.run_options_from_form(form))


# -- the form --------------------------------------------------------------------------------------------------------


async def test_without_an_api_server_the_form_says_that_capacity_is_unknown(
    make_spawner: MakeSpawner, use_api: Callable[[str], None]
):
    use_api("http://127.0.0.1:1")
    assert "cannot be reached" in await make_spawner().get_options_form()


async def test_a_wrong_form_is_refused_and_the_page_says_each_problem_once(make_spawner: MakeSpawner):
    with pytest.raises(web.HTTPError, match="gpu_count: ") as refused:
        await read_form(make_spawner(), {**FORM, "gpu_count": ["9"]})
    assert (refused.value.status_code, refused.value.jupyterhub_message) == (400, SEE_FORM)


async def test_a_gpu_type_that_cannot_be_looked_up_is_no_mistake_of_the_user(
    make_spawner: MakeSpawner, use_api: Callable[[str], None]
):
    use_api("http://127.0.0.1:1")
    spawner = make_spawner()
    for attempt in (read_form(spawner, {**FORM, "gpu": ["t4"]}), begin(spawner, {"gpu": "t4"})):
        with pytest.raises(web.HTTPError) as failed:
            await attempt
        assert failed.value.status_code == 503
        assert "API server cannot be reached" in failed.value.jupyterhub_message


async def test_a_form_that_cannot_be_judged_comes_back_without_a_word_against_it(
    make_spawner: MakeSpawner, use_api: Callable[[str], None]
):
    use_api("http://127.0.0.1:1")
    spawner = make_spawner()
    with pytest.raises(web.HTTPError):
        await read_form(spawner, {**FORM, "cpu": ["3"], "gpu": ["t4"]})
    page = await spawner.get_options_form()
    assert BeautifulSoup(page, "html.parser").find(attrs={"name": "cpu"})["value"] == "3"
    assert "There is no GPU type" not in page


async def test_a_wrong_form_comes_back_as_it_was_typed_with_the_message_at_the_field(make_spawner: MakeSpawner):
    with pytest.raises(web.HTTPError):
        await read_form(make_spawner(name="ada"), {**FORM, "cpu": ["3cores"]})
    # As JupyterHub does, with the spawner of the user's default server.
    page = BeautifulSoup(await make_spawner(name="ada").get_options_form(), "html.parser")
    assert page.find(attrs={"name": "cpu"})["value"] == "3cores"
    assert page.find(attrs={"name": "memory"})["value"] == "16"
    assert "number" in page.get_text()


# -- the gate --------------------------------------------------------------------------------------------------------


async def test_a_refused_start_asks_the_cluster_for_no_more_than_what_is_left_and_leaves_nothing(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    with pytest.raises(web.HTTPError):
        await begin(spawner, {"gpu": "h900"})
    assert await spawner.poll() == 0
    assert {request.method for request in server.requests if request.path != REVIEWS} == {"GET"}
    asked = {request.path.rpartition("/")[2] for request in server.requests if "namespaces" in request.path}
    assert asked == {"resourcequotas"}


async def test_the_timeout_of_the_type_is_set_before_the_hub_reads_it(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner={"start_timeout": 77})
    spawner.clear_state()
    await spawner._run_apply_user_options({"gpu": "a100"})
    assert spawner.start_timeout == 900
    spawner.clear_state()
    await spawner._run_apply_user_options({})
    assert spawner.start_timeout == 77


# -- KubeSpawner as it was -------------------------------------------------------------------------------------------


async def test_a_site_with_a_form_of_its_own_keeps_it(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={}, kubespawner={"options_form": "<input name=x>"})
    spawner.user_options = {"x": "1"}
    assert await spawner.get_options_form() == "<input name=x>"
    await spawner.load_user_options()


async def test_a_class_that_reads_the_form_in_the_constructor_keeps_the_sites_own(make_spawner: MakeSpawner):
    class EarlySpawner(GPUSpawner):
        def _expand_user_properties(self, template: str, slug_scheme: str | None = None) -> str:
            assert self.options_from_form is not None  # the trait keeps its default from the first read on
            expanded: str = super()._expand_user_properties(template, slug_scheme)
            return expanded

    own_form = {"options_form": "<input name=x>"}
    early, usual = (make_spawner(kind=kind, settings={}, kubespawner=own_form) for kind in (EarlySpawner, GPUSpawner))
    assert await read_form(early, {"x": ["1"]}) == await read_form(usual, {"x": ["1"]})


class CourseTraits(HasTraits):
    course_slug = Unicode().tag(config=True)


class CourseSpawner(CourseTraits, GPUSpawner):
    """A spawner of a site, whose pods tell their course."""

    seats = Int(1).tag(config=True)
    rooms = Dict().tag(config=True)

    def get_env(self) -> dict[str, Any]:
        course = {"COURSE": f"{self.course_slug} {self.seats} {sorted(self.rooms)}"}
        return {**super().get_env(), **course}


async def test_an_image_sets_the_traits_of_a_subclass_for_one_start(make_spawner: MakeSpawner):
    override = {"course_slug": "physics", "seats": 30, "rooms": {"b": 2}}
    images = {"course": {"image": "a:1", "kubespawner_override": override}, "plain": {"image": "b:1"}}
    spawner = make_spawner(kind=CourseSpawner, settings={"images": images}, rooms={"a": 1})
    course = environment(await pod_of(spawner, {"image": "course"}))["COURSE"]
    plain = environment(await pod_of(spawner, {"image": "plain"}))["COURSE"]
    assert (course, plain) == ("physics 30 ['a', 'b']", " 1 ['a']")


async def test_a_start_does_not_merge_the_configuration_for_each_look_for_a_form(make_spawner: MakeSpawner):
    class CountingSpawner(GPUSpawner):
        merges = 0

        def _find_my_config(self, cfg: Config) -> Any:
            self.merges += 1
            return super()._find_my_config(cfg)

    spawner = make_spawner(kind=CountingSpawner)
    constructed = spawner.merges
    await spawner.load_user_options()
    spawner.get_state()
    spawner.clear_state()
    assert spawner.merges - constructed <= 1
    next_one = CountingSpawner(
        hub=spawner.hub, user=spawner.user, config=spawner.config, api_token="secret", oauth_client_id="x"
    )
    constructed = next_one.merges
    await next_one.load_user_options()
    assert next_one.merges == constructed


@pytest.mark.parametrize("name", ["ada", "Ada Löve--"])
@pytest.mark.parametrize(
    "template", ["", "plain", "ends with -", "{username}-", "-{servername}-", "{{literal}}", "{pod_name}"]
)
async def test_texts_are_expanded_as_kubespawner_does(make_spawner: MakeSpawner, name: str, template: str):
    spawner = make_spawner(name=name)
    assert spawner._expand_user_properties(template) == KubeSpawner._expand_user_properties(spawner, template)


async def test_a_text_with_a_lonely_brace_is_an_error_as_it_is_in_kubespawner(make_spawner: MakeSpawner):
    with pytest.raises(ValueError, match="Single"):
        make_spawner()._expand_user_properties("}")
