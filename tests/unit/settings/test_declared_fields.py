"""A declared field has its keys in settings and presets, its trait and its part in the script."""

from __future__ import annotations

import pytest

from gpuspawner.core.request.field_definitions import AMOUNT_FIELDS, FIELDS
from gpuspawner.core.request.fields import ChoiceField, Field
from gpuspawner.core.value_types import list_keys
from gpuspawner.hub.config.traits import SETTING_TRAITS
from gpuspawner.settings.models import PresetEntry, SettingsModel


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_preset_may_hold_every_field_but_the_image_that_a_user_names(field: Field):
    assert (field.name in list_keys(PresetEntry)) is (field.name != "custom_image")


@pytest.mark.parametrize(
    "section",
    [
        *(each.name for each in AMOUNT_FIELDS),
        *(each.section for each in FIELDS if isinstance(each, ChoiceField)),
    ],
)
def test_what_a_field_offers_is_a_key_of_the_settings_and_a_trait(section: str):
    assert section in list_keys(SettingsModel)
    assert section in SETTING_TRAITS
