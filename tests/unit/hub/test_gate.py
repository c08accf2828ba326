"""Whatever the options are, the gate lets a valid choice through or raises a SelectionError."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.assemble import assemble
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.inventory import Inventory
from gpuspawner.hub.gate import UnreadClusterError, admit
from gpuspawner.hub.offers import Offer
from gpuspawner.settings import Settings
from tests.unit.hub.conftest import SETTINGS
from tests.unit.hub.test_room import BASE

PARSED = Settings.parse({**SETTINGS, "custom_images": {"allowed": True, "registries": ["quay.io"]}})
OFFER = Offer(
    catalogue=assemble(PARSED.configured(), Inventory(), table=PARSED.table(), fallback_image="base"),
    inventory=Inventory(),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
FIELDS = st.sampled_from(["v", "preset", "image", "custom_image", "cpu", "memory", "gpu", "gpu_count", "profile", "x"])


def test_a_choice_is_let_through_in_the_form_it_is_stored_in():
    admission = admit({"gpu": "a100"}, OFFER, base=BASE)
    assert {name: admission.options[name] for name in ("v", "gpu", "gpu_count")} == {
        "v": 1,
        "gpu": "a100",
        "gpu_count": 1,
    }


def test_the_stored_form_is_let_through_again():
    options = admit({"gpu": "a100", "cpu": 4}, OFFER, base=BASE).options
    assert admit(options, OFFER, base=BASE).options == options


def test_an_image_that_a_person_names_is_let_through_by_its_full_name():
    admission = admit({"custom_image": "QUAY.io/acme/own"}, OFFER, base=BASE)
    assert admission.choice.placement.image == "quay.io/acme/own"
    assert admit(admission.options, OFFER, base=BASE).options == admission.options


def test_the_choice_knows_every_offered_resource():
    assert admit({}, OFFER, base=BASE).choice.resources == {"nvidia.com/gpu", "amd.com/gpu"}


def test_a_choice_that_is_not_offered_is_refused():
    with pytest.raises(SelectionError):
        admit({"gpu": "h900"}, OFFER, base=BASE)


def unread(settings: dict[str, Any]) -> Offer:
    parsed, inventory = Settings.parse(settings), Inventory(reason="Down.")
    configured = parsed.configured()
    catalogue = assemble(configured, inventory, table=parsed.table(), fallback_image="base")
    return Offer(catalogue=catalogue, inventory=inventory, uncounted=configured.uncounted)


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
        admit(options, unread({"gpus": {"own": UNCOUNTED}, "presets": PRESETS}), base=BASE)


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
    offer = unread({"gpus": {"own": UNCOUNTED, "fixed": {**UNCOUNTED, "max_count": 2}}, "presets": PRESETS})
    with pytest.raises(SelectionError) as wrong:
        admit(options, offer, base=BASE)
    assert type(wrong.value) is SelectionError


@given(st.dictionaries(FIELDS, JSON, max_size=6) | JSON)
def test_any_json_is_let_through_or_refused(options: Any):
    try:
        image = admit(options, OFFER, base=BASE).choice.placement.image
    except SelectionError:
        return
    assert image
