"""The form opens with any stored or sent options, and a start accepts every preset that a card shows as startable."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.policy_model import Access, AmountRange, Policy, Rule
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.form.build import build_view
from gpuspawner.core.form.fields import build_fixed_options, fill_fields
from gpuspawner.core.policy.admission import admit
from gpuspawner.core.policy.allowance import Allowance
from tests.unit.core.form.test_fields_presets import MIXED, ONLY
from tests.unit.core.policies import GIB, allowed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
SLUGS = st.sampled_from(["lab", "staff", "named", "big", "gone", ""])
ENTRIES = st.sampled_from(["small", "large", "gpu", "torch", "r", "", "gone"])
IMAGES = st.sampled_from(["quay.io/a/b:1", "docker.io/x", "no image", ""])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "v": st.just(1) | JSON,
        "preset": SLUGS | JSON,
        "preset_choices": st.dictionaries(st.sampled_from(["size", "image", "x"]), ENTRIES | JSON, max_size=3) | JSON,
        "custom_image": IMAGES | JSON,
        "image": ENTRIES | JSON,
    },
)
TYPED = st.dictionaries(
    st.sampled_from(
        [
            *("start_preset", "preset", "preset_choices", "custom_image", "image", "cpu"),
            *("preset:lab:size", "preset:lab:image", "preset-image:lab:image", "preset-image:named:image"),
        ]
    ),
    SLUGS | ENTRIES | IMAGES | st.sampled_from(["size:large", "size:large,image:r", ","]) | st.text(max_size=5),
    max_size=5,
)
RULES: list[Any] = [
    None,
    Rule(memory=AmountRange(max=4 * GIB)),
    Rule(gpus={}),
    Rule(custom_images=False),
    Policy(access={("preset", "staff"): Access(), ("preset", "lab", "size", "small"): Access()}),
    Policy(access={("preset", "lab"): Access(), ("preset", "named"): Access()}, hide=True),
    Policy(groups={"physics": Rule()}, access={("preset", "lab"): Access(groups=frozenset({"physics"}))}),
]


@st.composite
def allowances(draw: st.DrawFn) -> Allowance:
    catalog = draw(st.sampled_from([ONLY, MIXED]))
    return allowed(
        draw(st.sampled_from(RULES)),
        presets=catalog.presets,
        only_presets=catalog.only_presets,
        groups=draw(st.sampled_from([(), ("physics",)])),
    )


@given(allowance=allowances(), options=OPTIONS | JSON, typed=st.none() | TYPED)
def test_what_a_card_shows_is_what_a_start_accepts(allowance: Allowance, options: Any, typed: dict[str, str] | None):
    catalog = allowance.full_catalog
    saved = options if isinstance(options, dict) else None
    filled = fill_fields(catalog, options=saved, typed=typed, allowance=allowance)
    view = build_view(catalog, Inventory(), filled=filled, allowance=allowance)
    for slug, fields in filled.presets.items():
        if fields.selection is not None and not fields.refusal and not allowance.blocked:
            assert admit(build_fixed_options(slug, fields), allowance).selection == fields.selection
    for preset in view.presets:
        assert not (preset.is_denied and preset.choices and preset.outlook is None)
        for choice in preset.choices:
            slugs = [each.slug for each in choice.entries]
            assert choice.picked in slugs or (not slugs and choice.image is not None)
            assert not any(each.is_denied for each in choice.entries if each.slug == choice.picked)
