"""The form offers exactly the choices that the gate accepts, whatever policy, usage and quota there are."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.build import build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView, GPUTypeState
from gpuspawner.core.policy.admission import admit
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.options import parse_form
from tests.unit.core.policy.test_allowance_law import ALLOWANCES, PARTIAL
from tests.unit.islands import faults, island_of


def form_of(limits: Allowance, options: object = None) -> FormView:
    filled = fill_fields(limits.full_catalog, options=options if isinstance(options, dict) else None, allowance=limits)
    return build_view(limits.full_catalog, Inventory(), filled=filled, allowance=limits)


def passes(options: dict[str, object], limits: Allowance) -> bool:
    try:
        admit(options, limits)
    except SelectionError:
        return False
    return True


@given(ALLOWANCES)
def test_each_choice_that_can_be_picked_is_let_through_and_no_other(limits: Allowance):
    view = form_of(limits)
    if view.policy is not None and view.policy.blocked:
        assert not passes({}, limits)
        assert all(preset.is_denied for preset in view.presets)
        return
    for image in view.images:
        assert passes({"image": image.slug}, limits) is (image.denied == "")
    assert passes({"custom_image": "quay.io/a/b:1"}, limits) is (view.custom_image is not None)
    for preset in view.presets:
        assert passes({"preset": preset.slug}, limits) is not preset.is_denied
    for gpu in (each for vendor in view.vendors for each in vendor.types):
        offered = range(1, gpu.max_count + 1) if gpu.state is not GPUTypeState.DENIED else ()
        counts = [count for count in range(1, 10) if passes({"gpu": gpu.slug, "gpu_count": count}, limits)]
        assert counts == list(offered)


@given(ALLOWANCES, PARTIAL | st.none())
def test_what_stands_in_a_form_that_opens_is_let_through(limits: Allowance, saved: object):
    view = form_of(limits, saved)
    assert faults(island_of(view)) == []
    if view.policy is not None and view.policy.blocked:
        return
    bounds, longest = limits.full_catalog.run_time, limits.find_max_run_time_s(view.values["gpu"] or None)
    # With a type that ends before the shortest run time there is, none can be named; a form always names one.
    assume(bounds is None or longest is None or longest >= bounds.min)
    sent = {name: [text] for name, text in view.values.items() if text or name == "gpu"}
    assert passes(parse_form(sent), limits)
    assert view.summary != ""
