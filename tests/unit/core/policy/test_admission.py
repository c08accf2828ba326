"""With any options, the gate lets a valid choice through or raises a SelectionError."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy import admission as admission_module
from gpuspawner.core.policy.admission import Admission, UnreadClusterError, admit
from gpuspawner.core.policy.allowance import Allowance, resolve_allowance
from gpuspawner.core.policy.usage import ServerUsage, Usage
from gpuspawner.core.request.pod_requirements import place
from gpuspawner.settings import Settings
from tests.unit.hostile import JSON
from tests.unit.hub.conftest import SETTINGS

PARSED = Settings.parse({**SETTINGS, "custom_images": {"allowed": True, "registries": ["quay.io"]}})
CATALOG = assemble_catalog(PARSED.configured, Inventory(), table=PARSED.table, fallback_image="base")


def everything(catalog: Catalog) -> Allowance:
    return Allowance(full_catalog=catalog, person=Person(name=""))


FIELDS = st.sampled_from(["v", "preset", "image", "custom_image", "cpu", "memory", "gpu", "gpu_count", "profile", "x"])


def test_an_image_that_a_person_names_is_let_through_by_its_full_name():
    admission = admit({"custom_image": "QUAY.io/acme/own"}, everything(CATALOG))
    assert admission.placement.image == "quay.io/acme/own"
    assert admit(admission.options, everything(CATALOG)).options == admission.options


@pytest.mark.parametrize("groups", [(), ("Ml",)], ids=["default", "group"])
def test_a_person_whose_rule_lists_images_names_no_other(groups: tuple[str, ...]):
    rules = {"default": {"images": ["minimal"]}, "groups": {"ml": {"images": ["minimal", "pytorch"]}}}
    parsed = Settings.parse({**SETTINGS, "custom_images": {"allowed": True}, "policy": rules})
    configured = parsed.configured
    catalog = assemble_catalog(configured, Inventory(), table=parsed.table, fallback_image="base")
    person = Person(name="ada", groups=frozenset(groups))
    with pytest.raises(PolicyError) as refused:
        admit({"custom_image": "quay.io/acme/own:1"}, resolve_allowance(catalog, person, usage=Usage()))
    assert [problem.code for problem in refused.value.problems] == ["custom_image_not_allowed"]


POLICED = Settings.parse(
    {
        **SETTINGS,
        "policy": {"default": {"gpus": ["a100"], "max_gpus": 2, "cpu": {"max": 4}, "max_runtime": "4h"}},
        "pools": {"all": {"groups": ["Ml"], "gpus": ["*"], "max_gpus": 8}},
    }
)
POLICED_CATALOG = assemble_catalog(POLICED.configured, Inventory(), table=POLICED.table, fallback_image="base")


def allowed(*, used: int = 0) -> Allowance:
    own = (ServerUsage(owner="ada", name="old", gpu="a100", count=used),)
    person = Person(name="ada", groups=frozenset({"ML"}))
    return resolve_allowance(POLICED_CATALOG, person, usage=Usage(own=own if used else ()))


def test_what_a_person_may_have_is_let_through_with_its_limits_on_the_pod():
    admission = admit({"gpu": "a100", "gpu_count": 2}, allowed())
    placement = admission.placement
    assert (admission.gpu and admission.gpu.slug, admission.selection.gpu_count, admission.pools) == (
        "a100",
        2,
        ("all",),
    )
    assert placement.annotations["gpuspawner.jupyter.org/pools"] == "all"
    assert placement.run_time_s == 4 * 60 * 60


def test_without_pools_no_pod_says_anything_of_them():
    assert "gpuspawner.jupyter.org/pools" not in admit({}, everything(CATALOG)).placement.annotations


@pytest.mark.parametrize("options", [{}, {"gpu": "a100"}])
def test_an_admission_places_its_choice_once(options: Any, monkeypatch: pytest.MonkeyPatch):
    placed: list[Any] = []
    monkeypatch.setattr(admission_module, "place", lambda *choice: placed.append(choice) or place(*choice))
    admit(options, everything(CATALOG))
    assert len(placed) == 1


def test_a_server_that_may_have_no_gpu_still_avoids_the_nodes_of_all():
    admission = admit({"gpu": None}, allowed(used=2))
    assert {each.key for each in admission.placement.avoided} == {each.key for each in _avoided()}


def _avoided() -> Any:
    return admit({"gpu": None}, everything(CATALOG)).placement.avoided


def admit_unread(options: Any, settings: dict[str, Any]) -> Admission:
    parsed, inventory = Settings.parse(settings), Inventory(reason="Down.")
    configured = parsed.configured
    catalog = assemble_catalog(configured, inventory, table=parsed.table, fallback_image="base")
    return admit(options, everything(catalog), unread_types=configured.uncounted)


UNCOUNTED = {"resource": "nvidia.com/gpu"}
PRESETS = {"new": {"gpu": "t4"}, "four": {"gpu": "own", "gpu_count": 4}}


@pytest.mark.parametrize(
    "options",
    [
        {"gpu": "t4"},
        {"preset": "new"},
        {"preset": "four"},
        {"cpu": 2},
        {"memory": "8G"},
        {"gpu": "own", "gpu_count": 4},
    ],
)
def test_what_the_unread_cluster_may_make_right_is_not_called_wrong(options: Any):
    with pytest.raises(UnreadClusterError):
        admit_unread(options, {"gpus": {"own": UNCOUNTED}, "presets": PRESETS})


@pytest.mark.parametrize(
    "options",
    [
        {"image": "x"},
        {"custom_image": "quay.io/x"},
        {"run_time": "8h"},
        {"shared_memory": "1G"},
        {"preset": "x"},
        {"color": "red"},
        {"gpu": "own", "gpu_count": 0},
        {"gpu": "own", "gpu_count": "many"},
        {"gpu": "fixed", "gpu_count": 3},
        {"v": 2},
    ],
)
def test_what_no_cluster_can_make_right_is_wrong_while_it_is_unread(options: Any):
    settings = {"gpus": {"own": UNCOUNTED, "fixed": {**UNCOUNTED, "max_count": 2}}, "presets": PRESETS}
    with pytest.raises(SelectionError) as wrong:
        admit_unread(options, settings)
    assert type(wrong.value) is SelectionError


@given(st.dictionaries(FIELDS, JSON, max_size=6) | JSON)
def test_any_json_is_let_through_or_refused(options: Any):
    try:
        image = admit(options, everything(CATALOG)).placement.image
    except SelectionError:
        return
    assert image
