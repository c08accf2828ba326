from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image, ScaleUp
from gpuspawner.core.cluster.model import MachineConstraints, ScalableNodePool
from gpuspawner.core.form.build import LiveState, build_verdict_view, can_add_nodes, find_type_state
from gpuspawner.core.form.views import GPUTypeState, VerdictView
from gpuspawner.core.form.wording import format_details
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.verdict.availability import Availability, FreeShape
from gpuspawner.core.verdict.verdict import Outcome, Verdict

GIB = 1 << 30
T4 = GPUType(slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4, new_nodes=False)
UNSEEN = replace(T4, new_nodes=True)
SCALING = replace(T4, scale_up=ScaleUp(max_nodes=2, gpus_per_node=4, minutes=6))
SHAPES = (FreeShape(cpu_millis=8000, memory_bytes=32 * GIB, gpu_count=4),)
ALL_FREE = Availability(total=8, healthy=8, free=8, largest=4, waiting=0, shapes=SHAPES, largest_shapes=SHAPES)
NONE_FREE = replace(ALL_FREE, free=0, largest=0, shapes=())
GONE = replace(NONE_FREE, total=0, healthy=0, largest_shapes=())

CATALOG = Catalog(
    images={"plain": Image(slug="plain", display_name="Plain", image="plain:1")}, cpu=None, memory=None, gpus={"t4": T4}
)
WANTED = Selection(image="plain", cpu_millis=4000, memory_bytes=8 * GIB, gpu="t4", gpu_count=4)


@pytest.mark.parametrize(
    ("gpu", "available", "state", "reason"),
    [
        (T4, ALL_FREE, GPUTypeState.FREE, ""),
        (T4, NONE_FREE, GPUTypeState.BUSY, "None is free right now."),
        (T4, replace(NONE_FREE, total=1, healthy=1), GPUTypeState.BUSY, "Not free right now."),
        (SCALING, NONE_FREE, GPUTypeState.BUSY, "None is free right now. A new node takes about 6 min."),
        (T4, replace(NONE_FREE, healthy=0), GPUTypeState.NONE, "All are out of order right now."),
        (T4, replace(NONE_FREE, total=1, healthy=0), GPUTypeState.NONE, "Out of order right now."),
        (SCALING, GONE, GPUTypeState.NONE, "No node with this GPU is running. A new node takes about 6 min."),
        (T4, GONE, GPUTypeState.NEVER, "The cluster has no node with this GPU."),
        (UNSEEN, GONE, GPUTypeState.NONE, "No node with this GPU is running. One may be added."),
        (UNSEEN, NONE_FREE, GPUTypeState.BUSY, "None is free right now."),
        (T4, Availability(), GPUTypeState.UNKNOWN, ""),
        (T4, Availability(total=8, healthy=8, largest_shapes=SHAPES), GPUTypeState.UNKNOWN, ""),
        (
            T4,
            Availability(total=0, healthy=0, largest_shapes=()),
            GPUTypeState.NEVER,
            "The cluster has no node with this GPU.",
        ),
    ],
)
def test_a_type_says_whether_one_can_start_and_why_not(
    gpu: GPUType, available: Availability, state: GPUTypeState, reason: str
):
    assert find_type_state(gpu, available) == (state, reason)


@pytest.mark.parametrize(
    ("available", "text"),
    [
        (Availability(), ""),
        (ALL_FREE, ""),
        (replace(ALL_FREE, healthy=7, free=7), "1 of 8 broken"),
        (replace(ALL_FREE, largest=2), "up to 2 at once"),
        (replace(ALL_FREE, free=2, largest=2), ""),
        (replace(NONE_FREE, healthy=6, waiting=3), "2 of 8 broken,\n3 waited for"),
        (Availability(total=8, healthy=7, largest_shapes=SHAPES), "1 of 8 broken"),
        (Availability(total=8, healthy=8, own=0), "none in use by servers of this hub"),
        (Availability(total=8, healthy=7, own=3), "1 of 8 broken,\n3 in use by servers of this hub"),
    ],
)
def test_what_else_is_to_say_about_the_counts(available: Availability, text: str):
    assert format_details(T4, available) == text


def test_any_of_several_types_may_be_added_where_one_of_them_may():
    either = replace(T4, members=(T4, SCALING, replace(T4, scale_up=ScaleUp(max_nodes=1, gpus_per_node=1, minutes=2))))
    assert (can_add_nodes(T4), can_add_nodes(either)) == (False, True)
    assert find_type_state(either, NONE_FREE) == (
        GPUTypeState.BUSY,
        "None is free right now. A new node takes about 2 min.",
    )


@pytest.mark.parametrize(
    ("scalable_pools", "state"),
    [
        ((), GPUTypeState.NEVER),
        (None, GPUTypeState.NONE),
        (
            (
                ScalableNodePool(
                    name="p", minutes=None, node_allocatable={}, max_new_nodes=None, machines=MachineConstraints()
                ),
            ),
            GPUTypeState.NONE,
        ),
    ],
)
def test_a_type_without_nodes_is_only_gone_where_none_may_be_added(
    scalable_pools: tuple[ScalableNodePool, ...] | None, state: GPUTypeState
):
    assert (find_type_state(T4, GONE, scalable_pools=scalable_pools)[0], can_add_nodes(T4, scalable_pools)) == (
        state,
        state is GPUTypeState.NONE,
    )


def test_the_verdict_is_shown_in_words():
    verdict = Verdict(outcome=Outcome.WAITS, reason="None of the 8 is free.", ahead=2)
    view = build_verdict_view(LiveState(verdict=verdict), WANTED, catalog=CATALOG)
    assert view == VerdictView(
        outcome="waits", sentence="Will wait: none of the 8 is free. 2 servers are ahead of yours."
    )


def test_an_alternative_says_what_differs_and_fills_in_every_field():
    live = LiveState(verdict=Verdict(outcome=Outcome.NEVER), alternatives=(replace(WANTED, gpu_count=2),))
    view = build_verdict_view(live, WANTED, catalog=CATALOG)
    assert [each.sentence for each in view.alternatives] == ["2 × T4"]
    assert dict(view.alternatives[0].values) == {
        "image": "plain",
        "custom_image": "",
        "cpu": "4",
        "memory": "8",
        "gpu": "t4",
        "gpu_count": "2",
        "run_time": "",
        "shared_memory": "",
        "priority": "",
    }
