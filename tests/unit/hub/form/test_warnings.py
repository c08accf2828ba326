"""Problems of GPUs are computed once, and logged once."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.discovery.discover import discover_gpu_types
from gpuspawner.hub.config.offer import Offer, OfferFactory
from gpuspawner.hub.form.warnings import AdminWarnings, WarningScope
from gpuspawner.hub.pod.override_checks import parse_settings

GPU = "nvidia.com/gpu"
PARSED = OfferFactory(parse_settings).parse({})
VIEWPOINT = WarningScope(PARSED, ())
CATALOG = Catalog(images={}, cpu=None, memory=None)
INVALID = Node(name="n", labels={"nvidia.com/gpu.product": "A100-MIG-INVALID"})
GOOD = Node(name="good")
T4 = Node(name="t4", labels={"nvidia.com/gpu.product": "Tesla-T4"}, capacity={GPU: 1}, allocatable={GPU: 1})
WITH_PRESETS = OfferFactory(parse_settings).parse({"presets": {"train": {"gpu": "t4"}, "good": {"gpu": "t4"}}})
LOG = logging.getLogger("test")


def offer(*nodes: Node) -> Offer:
    return Offer(catalog=CATALOG, inventory=Inventory(nodes=nodes))


def assembled(*nodes: Node) -> Offer:
    """Return an offer with presets as far as these nodes have their GPUs."""
    inventory = Inventory(nodes=nodes)
    catalog = assemble_catalog(WITH_PRESETS.configured, inventory, table=WITH_PRESETS.table, fallback_image="i")
    return Offer(catalog=catalog, inventory=inventory)


@pytest.fixture
def concerns() -> AdminWarnings:
    return AdminWarnings(soon_s=0, pause_s=0)


async def told(concerns: AdminWarnings, caplog: pytest.LogCaptureFixture, *nodes: Node, **changes: Any) -> list[str]:
    """Return what the log says for these nodes."""
    caplog.clear()
    viewpoint = VIEWPOINT._replace(**changes)
    seen = assembled(*nodes) if viewpoint.settings is WITH_PRESETS else offer(*nodes)
    concerns.schedule_log(seen, viewpoint, log=LOG)
    timer = concerns._timer
    async with asyncio.timeout(5):
        while timer is not None and concerns._timer is timer:  # noqa: ASYNC110 - a timer is no event
            await asyncio.sleep(0)
    return [record.getMessage().partition(" (")[0] for record in caplog.records]


def test_for_the_same_nodes_and_settings_it_is_worked_out_once(concerns: AdminWarnings):
    seen = offer(INVALID)
    first = concerns.find_warnings(seen, VIEWPOINT)
    assert [flag.nodes for flag in first] == [("n",)]
    assert concerns.find_warnings(replace(seen, uncounted=frozenset({"x"})), VIEWPOINT) is first
    assert concerns.find_warnings(offer(GOOD), VIEWPOINT) == ()


def test_what_every_server_tolerates_is_part_of_the_question(concerns: AdminWarnings):
    tainted = Node(name="n", capacity={GPU: 1}, allocatable={GPU: 1}, taints=(Taint(key="k", effect="NoSchedule"),))
    gpus = {gpu.slug: gpu for gpu in discover_gpu_types([tainted], PARSED.table)}
    seen = replace(offer(tainted), catalog=replace(CATALOG, gpus=gpus))
    tolerated = (Toleration(key="k", operator="Exists"),)
    found = [concerns.find_warnings(seen, WarningScope(PARSED, each)) for each in ((), tolerated)]
    assert [len(flags) for flags in found] == [1, 0]


async def test_a_change_is_reported_and_not_repeated(concerns: AdminWarnings, caplog: pytest.LogCaptureFixture):
    sentence = "GPUs on n: No GPU is offered: the MIG layout is not the same on all GPUs"
    assert await told(concerns, caplog, INVALID) == [sentence]
    assert await told(concerns, caplog, INVALID, GOOD) == []
    other = replace(INVALID, name="o")
    assert await told(concerns, caplog, INVALID, other) == [sentence.replace("n:", "o:", 1)]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert await told(concerns, caplog, other) == []


async def test_the_end_of_all_problems_is_logged_once(concerns: AdminWarnings, caplog: pytest.LogCaptureFixture):
    assert await told(concerns, caplog, GOOD) == []
    await told(concerns, caplog, INVALID)
    assert await told(concerns, caplog, GOOD) == ["GPUs and presets: All are offered and work again."]
    assert await told(concerns, caplog, GOOD, replace(GOOD, name="m")) == []


async def test_a_fault_that_returns_is_logged_again_whichever_users_loaded_forms_in_between(
    concerns: AdminWarnings, caplog: pytest.LogCaptureFixture
):
    others = (Toleration(key="k"),)
    await told(concerns, caplog, INVALID)
    assert await told(concerns, caplog, INVALID, tolerations=others) == []
    assert await told(concerns, caplog, replace(INVALID, labels={}), tolerations=others) == [
        "GPUs and presets: All are offered and work again."
    ]
    assert len(await told(concerns, caplog, replace(INVALID), tolerations=others)) == 1


async def test_nodes_that_cannot_be_read_are_not_well_again(concerns: AdminWarnings, caplog: pytest.LogCaptureFixture):
    await told(concerns, caplog, INVALID)
    caplog.clear()
    concerns.schedule_log(Offer(catalog=CATALOG, inventory=Inventory(reason="Down.")), VIEWPOINT, log=LOG)
    assert concerns._timer is None
    assert await told(concerns, caplog, INVALID) == []


async def test_no_request_waits_for_the_log(concerns: AdminWarnings, caplog: pytest.LogCaptureFixture):
    concerns.schedule_log(offer(INVALID), VIEWPOINT, log=LOG)
    assert (caplog.records, concerns._found) == ([], {})


async def test_the_log_is_looked_after_at_most_once_in_a_while(caplog: pytest.LogCaptureFixture):
    concerns = AdminWarnings(soon_s=0, pause_s=3600)
    await told(concerns, caplog, INVALID)
    concerns.schedule_log(offer(GOOD), VIEWPOINT, log=LOG)
    assert concerns._timer is not None
    assert concerns._timer.when() - asyncio.get_running_loop().time() > 3500


async def test_many_different_viewpoints_do_not_pile_up(concerns: AdminWarnings, caplog: pytest.LogCaptureFixture):
    for number in range(99):
        viewpoint = WarningScope(PARSED, (Toleration(key=str(number)),))
        concerns.find_warnings(offer(INVALID), viewpoint)
        await told(concerns, caplog, INVALID, tolerations=viewpoint.tolerations)
    assert max(map(len, (concerns._found, concerns._scheduled, concerns._waiting))) <= 32
    assert len(concerns._logged) == 1


MISSING = "Presets train, good: Not in the form at the moment. There is no GPU type 't4'."


async def test_a_preset_that_is_left_out_is_reported_once_and_again_when_it_was_back(
    concerns: AdminWarnings, caplog: pytest.LogCaptureFixture
):
    async def said(*nodes: Node, **changes: Any) -> list[str]:
        return await told(concerns, caplog, *nodes, settings=WITH_PRESETS, **changes)

    others = (Toleration(key="k"),)
    assert await said(T4) == []
    # One of the nodes is called as one of the presets.
    assert await said(GOOD) == [MISSING]
    assert await said(GOOD, replace(GOOD, name="m")) == []
    assert await said(GOOD, tolerations=others) == []
    assert await said(GOOD, T4, tolerations=others) == ["GPUs and presets: All are offered and work again."]
    assert await said(GOOD, T4) == []
    assert await said(GOOD) == [MISSING]


async def test_warnings_about_nodes_begin_with_gpus_beside_presets_too(
    concerns: AdminWarnings, caplog: pytest.LogCaptureFixture
):
    said = await told(concerns, caplog, INVALID, settings=WITH_PRESETS)
    assert said == [MISSING, "GPUs on n: No GPU is offered: the MIG layout is not the same on all GPUs"]


async def test_settings_without_a_preset_do_not_make_it_well(concerns: AdminWarnings, caplog: pytest.LogCaptureFixture):
    await told(concerns, caplog, GOOD, settings=WITH_PRESETS)
    assert await told(concerns, caplog, GOOD) == []
    assert await told(concerns, caplog, replace(GOOD), settings=WITH_PRESETS) == []


async def test_a_type_that_rules_name_and_that_there_is_not_is_reported_once(
    concerns: AdminWarnings, caplog: pytest.LogCaptureFixture
):
    settings = OfferFactory(parse_settings).parse({"policy": {"default": {"gpus": ["t5"]}}})
    assert await told(concerns, caplog, GOOD, settings=settings) == [
        "policy.default.gpus: There is no GPU type 't5' at the moment."
    ]
    assert await told(concerns, caplog, replace(GOOD), settings=settings) == []


def test_while_no_node_can_be_read_no_preset_is_called_missing(concerns: AdminWarnings):
    viewpoint = VIEWPOINT._replace(settings=WITH_PRESETS)
    assert concerns.find_warnings(Offer(catalog=CATALOG, inventory=Inventory(reason="Down.")), viewpoint) == ()


def test_gpus_that_are_dropped_from_every_server_are_reported(concerns: AdminWarnings):
    seen = replace(offer(GOOD), catalog=replace(CATALOG, dropped_gpus={"amd.com/gpu": 1}))
    (found,) = concerns.find_warnings(seen, VIEWPOINT)
    assert (found.settings, found.resource) == (("extra_resource_limits",), "amd.com/gpu")
