"""Starts of fixed presets: by REST, form and link, again from stored options, and refused ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.utils import maybe_future
from sqlalchemy.exc import OperationalError
from tornado import web

from gpuspawner.hub.errors import RefusedStart, is_hub_failure
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import begin, environment, pod_of

LARGE = {
    "display_name": "Large",
    "memory": "16G",
    "allowed_groups": ["tutors"],
    "kubespawner_override": {"environment": {"SIZE": "large"}, "node_selector": {"pool": "large"}},
}
SMALL: dict[str, Any] = {
    "display_name": "Small server",
    "image": "minimal",
    "cpu": "unlimited",
    "cpu_guarantee": 0.5,
    "memory": "4G",
    "kubespawner_override": {
        "environment": {"SIZE": "small", "OWNER": "{username}", "ADMINS": None},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "default_url": "/lab/tree/notes",
        "start_timeout": 901,
    },
    "choices": {
        "size": {
            "display_name": "Size",
            "entries": {"plain": {"display_name": "Plain", "default": True}, "large": LARGE},
        },
        "image": {
            "display_name": "Image",
            "entries": {"usual": {"display_name": "Usual", "default": True}},
            "custom_image": {"pattern": "^quay[.]io/.*$", "message": "Images come from quay.io."},
        },
    },
}
PRESETS = {
    **SETTINGS,
    "only_presets": True,
    "presets": {
        "small": SMALL,
        "staff": {"display_name": "Staff", "cpu": 1, "memory": "1G", "allowed_users": ["grace"]},
    },
}
ADMINS = {"environment": {"ADMINS": "1", "BASE": "1"}, "node_selector": {"zone": "a"}, "start_timeout": 300}
OPTIONS = {"preset": "small", "preset_choices": {"size": "large"}}


@pytest.fixture
async def ada(make_spawner: MakeSpawner) -> GPUSpawner:
    spawner = make_spawner(settings=PRESETS, kubespawner=ADMINS)
    spawner.user.groups = [SimpleNamespace(name="Tutors")]
    return spawner


def without_profile(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "profile"}


async def test_the_pod_of_a_preset_has_its_override_over_the_admins_values(ada: GPUSpawner):
    pod = await pod_of(ada, OPTIONS)
    (container,) = pod["spec"]["containers"]
    variables = environment(pod)
    assert {"SIZE": "large", "OWNER": "ada", "BASE": "1"}.items() <= variables.items()
    assert "ADMINS" not in variables
    assert pod["spec"]["nodeSelector"] == {"zone": "a", "pool": "large"}
    assert {"key": "dedicated", "operator": "Exists"} in pod["spec"]["tolerations"]
    assert variables["JUPYTERHUB_DEFAULT_URL"] == "/lab/tree/notes"
    assert container["resources"] == {
        "limits": {"memory": 16 * 1024**3},
        "requests": {"cpu": 0.5, "memory": 16 * 1024**3},
    }
    assert ada.start_timeout == 901


async def test_stored_options_name_the_preset_and_start_the_same_again(ada: GPUSpawner):
    first = await pod_of(ada, OPTIONS)
    stored = ada.user_options
    assert stored == {
        "v": 1,
        "preset": "small",
        "preset_choices": {"size": "large", "image": "usual"},
        "profile": "Small server · Minimal · 16 GiB",
    }
    again = await pod_of(ada, stored)
    assert (again["spec"], ada.user_options) == (first["spec"], stored)


async def test_the_admins_values_are_back_before_the_next_start(ada: GPUSpawner):
    await begin(ada, OPTIONS)
    await begin(ada, {"preset": "small"})
    assert ada.node_selector == {"zone": "a"}
    ada.clear_state()
    assert (ada.environment, ada.node_selector, ada.start_timeout, ada.default_url) == (
        {"ADMINS": "1", "BASE": "1"},
        {"zone": "a"},
        300,
        "",
    )


@pytest.mark.parametrize("options", [{}, {"v": 1}], ids=["empty", "version"])
async def test_a_start_without_a_choice_gets_the_default_preset(ada: GPUSpawner, options: Any):
    await begin(ada, options)
    assert ada.user_options["preset"] == "small"
    assert ada.user_options["preset_choices"] == {"size": "plain", "image": "usual"}


async def test_a_form_and_a_link_send_the_same_choice(ada: GPUSpawner):
    form = {
        "start_preset": ["small"],
        "preset:small:size": ["large"],
        "preset:small:image": [""],
        "preset-image:small:image": ["quay.io/a/b:1"],
        "preset:other:size": ["x"],
    }
    sent = await maybe_future(ada.run_options_from_form(form))
    link = {"preset": ["small"], "preset_choices": ["size:large"], "custom_image": ["quay.io/a/b:1"]}
    linked = await maybe_future(ada.options_from_query(link))
    expected = {"v": 1, "preset": "small", "preset_choices": {"size": "large"}, "custom_image": "quay.io/a/b:1"}
    assert [without_profile(sent), without_profile(linked)] == [expected, expected]
    pod = await pod_of(ada, sent)
    assert pod["spec"]["containers"][0]["image"] == "quay.io/a/b:1"


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ({"preset": "gone"}, 400, "preset: There is no preset 'gone'."),
        ({"preset": "staff"}, 403, "preset: You don't have access to the preset Staff."),
        (
            {"preset": "small", "preset_choices": {"size": "huge"}},
            400,
            "preset_choices: Size: there is no entry 'huge'.",
        ),
        (
            {"preset": "small", "preset_choices": {"colour": "red"}},
            400,
            "preset_choices: The preset Small server has no",
        ),
        ({"preset": "small", "preset_choices": "size:large"}, 400, "preset_choices: The choices in a preset must be"),
        ({"preset": "small", "memory": "64G"}, 400, "memory: The preset 'Small server' sets memory itself."),
        ({"preset": "small", "custom_image": "evil.example/a:1"}, 400, "custom_image: Images come from quay.io."),
        ({"image": "minimal", "cpu": 8}, 400, "The preset 'Small server' sets "),
    ],
    ids=["gone", "forbidden", "entry", "choice", "text", "field", "image", "without_preset"],
)
async def test_a_refused_preset_is_the_users_matter(ada: GPUSpawner, options: Any, status: int, told: str):
    with pytest.raises(web.HTTPError) as refused:
        await begin(ada, options)
    assert (refused.value.status_code, isinstance(refused.value, RefusedStart)) == (status, True)
    assert told in str(refused.value.log_message)
    assert not is_hub_failure(refused.value)


async def test_an_entry_for_other_groups_is_refused_even_from_stored_options(ada: GPUSpawner):
    await begin(ada, OPTIONS)
    stored = ada.user_options
    ada.user.groups = []
    with pytest.raises(web.HTTPError) as refused:
        await begin(ada, stored)
    assert refused.value.status_code == 403
    assert "preset_choices: You don't have access to the choice Large." in str(refused.value.log_message)


async def test_while_groups_are_unknown_no_preset_starts(ada: GPUSpawner):
    class Unreadable(SimpleNamespace):
        @property
        def groups(self) -> None:
            raise OperationalError("select", {}, Exception("the database is locked"))

    ada.user = Unreadable(**{name: value for name, value in vars(ada.user).items() if name != "groups"})
    with pytest.raises(web.HTTPError) as refused:
        await ada._run_apply_user_options({"preset": "small"})
    assert refused.value.status_code == 503
    assert not is_hub_failure(refused.value)


@pytest.mark.parametrize(
    "stored",
    [
        {"profile": "gpu", "size": "large"},
        {"profile": {"slug": "gpu"}, "image--unlisted-choice": "quay.io/a/b:1"},
        {"v": 1, "image": "pytorch", "cpu": 4, "memory": "16G", "gpu": "a100", "gpu_count": 2},
        {"preset": "gone", "preset_choices": {"size": "large"}},
        {"preset": "staff"},
        {"preset": "small", "preset_choices": {"size": "huge", "colour": []}},
    ],
    ids=["profile", "profile_object", "fields", "gone", "forbidden", "entries"],
)
async def test_a_form_is_shown_whatever_was_stored_before(ada: GPUSpawner, stored: dict[str, Any]):
    ada.user_options = stored
    page = await ada.get_options_form()
    assert 'value="small"' in page
