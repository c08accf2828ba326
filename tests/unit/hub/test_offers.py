"""Settings, cluster and catalogue are put together once for everybody."""

from __future__ import annotations

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.offers import Offers
from tests.unit.hub.conftest import SETTINGS
from tests.unit.kube.list_server import ListServer


@pytest.fixture
def offers() -> Offers:
    return Offers()


def test_the_same_settings_are_parsed_once(offers: Offers):
    assert offers.parse(SETTINGS) is offers.parse(dict(SETTINGS))


def test_entries_in_another_order_are_other_settings(offers: Offers):
    swapped = {**SETTINGS, "images": dict(reversed(SETTINGS["images"].items()))}
    assert list(offers.parse(SETTINGS).configured.images) == ["pytorch", "minimal"]
    assert list(offers.parse(swapped).configured.images) == ["minimal", "pytorch"]


def test_many_different_settings_do_not_pile_up(offers: Offers):
    for number in range(1, 100):
        offers.parse({"cpu": {"min": 1, "max": number, "step": 1, "default": 1}})
    assert len(offers._settings) <= 32


def test_wrong_settings_are_an_error_each_time(offers: Offers):
    for _ in range(2):
        with pytest.raises(SettingsError):
            offers.parse({"gpus": 3})


def test_no_settings_are_empty(offers: Offers):
    assert offers.parse({}).is_empty
    assert not offers.parse(SETTINGS).is_empty


async def test_an_offer_is_assembled_once_for_an_inventory(offers: Offers, server: ListServer):
    async with ApiClient(Configuration(host=server.url)) as client:
        reader = offers.reader(CoreV1Api(client), max_age_s=60)
        parsed = offers.parse({})
        first = await offers.make(parsed, reader, image="base:1")
        assert (await offers.make(parsed, reader, image="base:1")).catalogue is first.catalogue
        other = await offers.make(parsed, reader, image="base:2")
        assert [image.image for image in other.catalogue.images.values()] == ["base:2"]


async def test_a_new_inventory_makes_a_new_offer(offers: Offers, server: ListServer):
    async with ApiClient(Configuration(host=server.url)) as client:
        reader = offers.reader(CoreV1Api(client), max_age_s=0)
        parsed = offers.parse({})
        assert (await offers.make(parsed, reader, image="base")).catalogue.gpus
        server.objects = {"/api/v1/nodes": []}
        assert not (await offers.make(parsed, reader, image="base")).catalogue.gpus


async def test_one_client_has_one_reader(offers: Offers, server: ListServer):
    async with ApiClient(Configuration(host=server.url)) as client:
        one, other = CoreV1Api(client), CoreV1Api(client)
        reader = offers.reader(one)
        assert offers.reader(one) is reader
        assert offers.reader(other) is not reader
