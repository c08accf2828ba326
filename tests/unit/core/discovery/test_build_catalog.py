from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.model import (
    Bounds,
    Catalog,
    CustomImages,
    GPUType,
    Image,
    OwnAmount,
    Platform,
    Preset,
    ScaleUp,
    UnitKind,
)
from gpuspawner.core.catalog.node_labels import build_gpu_node_exclusion, matches_expressions
from gpuspawner.core.catalog.policy_model import Policy, Rule
from gpuspawner.core.catalog.software import read_platform
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.selection import validate
from gpuspawner.core.warnings.nodes import WarningKind, find_node_warnings

GIB = 1 << 30
GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"


def node(product: str | None, number: int = 4, **labels: str) -> Node:
    amounts = {"cpu": 63_800, "memory": 100 * GIB - 1, GPU: number}
    return Node(
        name="n", labels=labels | ({PRODUCT: product} if product else {}), allocatable=amounts, capacity=amounts
    )


def own(slug: str, **changes: Any) -> GPUType:
    return replace(
        GPUType(slug=slug, display_name=slug, resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)}), **changes
    )


def made(configured: ConfiguredCatalog, *nodes: Node) -> Catalog:
    return assemble_catalog(
        configured, Inventory(nodes=nodes), table=AcceleratorTable(), fallback_image="quay.io/some/base:1"
    )


def test_without_settings_everything_comes_from_the_cluster_and_the_spawner():
    catalog = made(ConfiguredCatalog(), node("T4"))
    assert catalog.images == {
        "default": Image(
            slug="default", display_name="base:1", image="quay.io/some/base:1", description="quay.io/some/base:1"
        )
    }
    own = {"own": OwnAmount(), "is_optional": True}
    assert catalog.cpu == Bounds(min=500, max=63_500, step=500, default=2000, guarantee=0.5, **own)
    assert catalog.memory == Bounds(min=GIB, max=99 * GIB, step=GIB, default=8 * GIB, guarantee=1.0, **own)
    assert list(catalog.gpus) == ["t4"]


def test_while_nodes_are_unknown_so_are_bounds():
    catalog = assemble_catalog(ConfiguredCatalog(), Inventory(), table=AcceleratorTable(), fallback_image="i")
    assert (catalog.cpu, catalog.memory, catalog.gpus) == (None, None, {})


def test_what_the_admin_configured_stands():
    bounds = Bounds(min=1, max=2, step=1, default=1)
    image = Image(slug="i", display_name="I", image="i")
    custom = CustomImages(registries=("quay.io",))
    catalog = made(ConfiguredCatalog(images={"i": image}, custom_images=custom, cpu=bounds, memory=bounds), node(None))
    assert (catalog.images, catalog.cpu, catalog.memory) == ({"i": image}, bounds, bounds)
    assert catalog.custom_images == custom


def test_the_spawners_image_is_not_offered_beside_the_admins():
    image = Image(slug="own", display_name="Own", image="q/own:1")
    presets = {"p": Preset(slug="p", display_name="P", options={"image": "default"})}
    catalog = made(ConfiguredCatalog(images={"own": image}, presets=presets), node(None))
    assert (catalog.images, catalog.presets) == ({"own": image}, {})


@pytest.mark.parametrize(
    "configured",
    [
        ConfiguredCatalog(gpus={"t4": own("t4", match={"pool": ("x",)})}),
        ConfiguredCatalog(gpus={"mine": own("mine")}),
        ConfiguredCatalog(gpus={"mine": own("mine", match={"pool": ("small",)})}),
        ConfiguredCatalog(gpus={"mine": own("mine", match={})}),
        ConfiguredCatalog(hidden=frozenset({"t4"})),
        ConfiguredCatalog(hidden=frozenset({"mine"}), hidden_gpus=(own("mine"),)),
        ConfiguredCatalog(hidden=frozenset({"mine"}), hidden_gpus=(own("mine", match={"pool": ("small",)}),)),
        ConfiguredCatalog(discover=False),
    ],
    ids=[
        "same slug",
        "same label",
        "same node by another label",
        "every node",
        "hidden",
        "hidden by label",
        "hidden by node",
        "switched off",
    ],
)
def test_the_admin_wins_over_what_is_discovered(configured: ConfiguredCatalog):
    catalog = made(configured, node("T4", pool="small"))
    assert {slug: replace(gpu, platforms=()) for slug, gpu in catalog.gpus.items()} == dict(configured.gpus)


def test_another_type_stays_beside_a_hidden_one():
    configured = ConfiguredCatalog(hidden=frozenset({"mine"}), hidden_gpus=(own("mine"),))
    assert list(made(configured, node("T4"), node("V100")).gpus) == ["v100"]


@pytest.mark.parametrize(
    "configured",
    [
        ConfiguredCatalog(hidden=frozenset({"t4"})),
        ConfiguredCatalog(hidden=frozenset({"mine"}), hidden_gpus=(own("mine"),)),
    ],
    ids=["by slug", "by label"],
)
def test_servers_without_a_gpu_avoid_nodes_of_hidden_types(configured: ConfiguredCatalog):
    (expression,) = build_gpu_node_exclusion(made(configured, node("T4")))
    assert (expression.key, expression.operator, expression.values) == (PRODUCT, "NotIn", ("T4",))


@pytest.mark.parametrize("admins", [{}, {"pool": ("gpu",)}, {PRODUCT: ("T4",)}], ids=["none", "pool", "model"])
def test_servers_without_a_gpu_avoid_gpu_nodes_that_have_no_type(admins: dict[str, tuple[str, ...]]):
    """Their driver is still being installed, so that nothing but a label says what they have."""
    starting = Node(name="a", labels={"nvidia.com/gpu.present": "true", "pool": "new"})
    configured = ConfiguredCatalog(gpus={"t4": own("t4", match=admins)} if admins else {}, discover=False)
    avoided = build_gpu_node_exclusion(made(configured, starting, node(None, pool="cpu")))
    assert [matches_expressions(labels, avoided) for labels in (starting.labels, {"pool": "cpu"})] == [False, True]


def test_a_discovered_type_joins_the_admins_others():
    catalog = made(ConfiguredCatalog(gpus={"t4": own("t4")}), node("T4"), node("V100"))
    assert list(catalog.gpus) == ["t4", "v100"]


@pytest.mark.parametrize(
    "taking",
    [
        {"gpus": {"mine": own("mine", match={"pool": ("small",)})}},
        {"hidden_gpus": (own("mine", match={"pool": ("small",)}),)},
    ],
    ids=["described", "hidden"],
)
def test_a_discovered_type_stays_on_the_nodes_that_the_admins_types_leave(taking: dict[str, Any]):
    nodes = node("T4", 8, pool="small"), node("T4", 4, pool="large")
    catalog = made(ConfiguredCatalog(**taking), *nodes)
    assert [slug for slug, gpu in catalog.gpus.items() if gpu.matches_labels(nodes[0].labels)] == list(
        taking.get("gpus", ())
    )
    left = catalog.gpus["t4"]
    assert (left.match, left.max_count, left.matches_labels(nodes[1].labels)) == (
        {PRODUCT: ("T4",), "pool": ("large",)},
        4,
        True,
    )


def test_nodes_that_no_label_tells_from_the_admins_are_not_offered_and_said_to_be():
    admins = ConfiguredCatalog(gpus={"mine": own("mine", match={"pool": ("small",)})})
    nodes = node("T4", pool="small"), replace(node("T4", pool="large"), name="a"), replace(node("T4"), name="b")
    catalog = made(admins, *nodes)
    (flag,) = find_node_warnings(nodes, catalog, table=AcceleratorTable())
    assert (list(catalog.gpus), flag.kind, flag.nodes) == (["mine"], WarningKind.NO_TYPE, ("a", "b"))
    assert flag.message == (
        "nvidia.com/gpu (T4) is not offered: no GPU type of the settings matches the labels. "
        "Describe one in gpus, with a match that these nodes meet and those of other types do not."
    )


def test_another_resource_of_the_same_node_is_another_type():
    mig = own("mig", resource="nvidia.com/mig-1g.5gb")
    assert list(made(ConfiguredCatalog(gpus={"mig": mig}), node("T4")).gpus) == ["mig", "t4"]


def test_a_count_that_was_left_out_is_the_largest_on_one_node():
    configured = ConfiguredCatalog(gpus={"t4": own("t4")}, uncounted=frozenset({"t4"}))
    assert made(configured, node("T4", 2), node("T4", 8), node("V100", 16)).gpus["t4"].max_count == 8


@pytest.mark.parametrize(("told", "most"), [("8", 8), ("many", 2), ("9999", 2)])
def test_a_count_that_was_left_out_is_what_labels_tell_while_a_device_plugin_is_not_there(told: str, most: int):
    configured = ConfiguredCatalog(gpus={"t4": own("t4")}, uncounted=frozenset({"t4"}))
    silent = node("T4", 0)
    silent = replace(silent, labels={**silent.labels, "nvidia.com/gpu.count": told})
    counted = node("T4", 2)
    counted = replace(counted, labels={**counted.labels, "nvidia.com/gpu.count": "7"})
    assert made(configured, silent, counted).gpus["t4"].max_count == most


def test_a_count_that_was_left_out_is_one_while_no_node_is_known():
    configured = ConfiguredCatalog(gpus={"t4": own("t4")}, uncounted=frozenset({"t4"}))
    assert made(configured).gpus["t4"].max_count == 1


def test_a_count_that_was_left_out_includes_nodes_that_may_be_added():
    scale_up = ScaleUp(max_nodes=4, gpus_per_node=8, minutes=6)
    configured = ConfiguredCatalog(gpus={"t4": own("t4", scale_up=scale_up)}, uncounted=frozenset({"t4"}))
    assert [made(configured, *nodes).gpus["t4"].max_count for nodes in ((), (node("T4", 2),), (node("T4", 16),))] == [
        8,
        8,
        16,
    ]


def test_while_nodes_are_unknown_presets_stay():
    presets = {"train": Preset(slug="train", display_name="T", options={"gpu": "t4"})}
    catalog = assemble_catalog(
        ConfiguredCatalog(presets=presets), Inventory(), table=AcceleratorTable(), fallback_image="i"
    )
    with pytest.raises(SelectionError) as caught:
        validate({"preset": "train"}, catalog)
    assert [(problem.field, problem.code) for problem in caught.value.problems] == [("gpu", "unknown_choice")]


def test_a_preset_that_no_user_could_start_is_left_out():
    presets = {
        "small": Preset(slug="small", display_name="S", options={"cpu": "1"}),
        "train": Preset(slug="train", display_name="T", options={"gpu": "t4", "gpu_count": 8}),
        "gone": Preset(slug="gone", display_name="G", options={"gpu": "k80"}),
    }
    assert list(made(ConfiguredCatalog(presets=presets), node("T4", 4)).presets) == ["small"]
    assert list(made(ConfiguredCatalog(presets=presets), node("T4", 8)).presets) == ["small", "train"]


def largest(**amounts: int) -> Node:
    return replace(node(None), allocatable={"cpu": 1000, "memory": GIB, **amounts})


def test_of_the_devices_of_a_driver_a_pod_gets_32_at_most():
    """ResourceClaims hold no more, and kube-scheduler makes one claim for a pod."""
    many = replace(node("T4", 48), published_by_dra=frozenset({GPU}))
    configured = ConfiguredCatalog(gpus={"t4": own("t4")}, uncounted=frozenset({"t4"}))
    assert made(configured, many).gpus["t4"].max_count == 32
    assert [gpu.max_count for gpu in made(ConfiguredCatalog(), many).gpus.values()] == [32]


@pytest.mark.parametrize(
    ("millis", "expected"), [(499, None), (700, (500, 500)), (1000, (1000, 1000)), (9999, (9500, 2000))]
)
def test_cpu_bounds_end_at_whole_steps_of_the_largest_node(millis: int, expected: tuple[int, int] | None):
    bounds = made(ConfiguredCatalog(), largest(cpu=millis)).cpu
    assert (bounds and (bounds.max, bounds.default)) == expected


@pytest.mark.parametrize(("size", "expected"), [(GIB - 1, None), (3 * GIB + 5, (3, 3)), (64 * GIB, (64, 8))])
def test_memory_bounds_end_at_whole_gib_of_the_largest_node(size: int, expected: tuple[int, int] | None):
    bounds = made(ConfiguredCatalog(), largest(memory=size)).memory
    assert (bounds and (bounds.max // GIB, bounds.default // GIB)) == expected


def test_several_types_are_one_choice_beside_them():
    either = own("any", max_count=0, any_of=("t4", "l4"))
    catalog = made(ConfiguredCatalog(gpus={"t4": own("t4", max_count=2)}, unions={"any": either}), node("L4"))
    assert list(catalog.gpus) == ["t4", "l4", "any"]
    assert [gpu.slug for gpu in catalog.gpus["any"].members] == ["t4", "l4"]
    assert catalog.gpus["any"].max_count == 4


def test_a_choice_of_types_that_are_not_there_is_not_offered():
    assert list(made(ConfiguredCatalog(unions={"any": own("any", any_of=("l4",))})).gpus) == []


def test_servers_without_a_gpu_avoid_the_same_nodes_with_and_without_a_choice_of_several():
    both = ConfiguredCatalog(unions={"any": own("any", any_of=("t4",))})
    assert build_gpu_node_exclusion(made(both, node("T4"))) == build_gpu_node_exclusion(
        made(ConfiguredCatalog(), node("T4"))
    )


def test_a_type_of_the_admin_covers_devices_without_a_count():
    uncounted = Node(name="n", labels={PRODUCT: "T4"}, uncounted=frozenset({GPU}))
    assert list(made(ConfiguredCatalog(gpus={"mine": own("mine")}), uncounted).gpus) == ["mine"]


DRIVER = "nvidia.com/cuda.driver-version.major"
V100_TABLE = AcceleratorTable(
    [Accelerator(slug="v100", name="V100", vendor="nvidia", labels={"gfd": ("T4",)}, compute=(7, 0))]
)


def test_a_type_says_what_its_nodes_are_like_each_kind_once():
    old, new = node("T4", **{DRIVER: "535"}), node("T4", **{DRIVER: "580"})
    catalog = made(ConfiguredCatalog(), old, new, new, node("V100", **{DRIVER: "470"}))
    assert catalog.gpus["t4"].platforms == (read_platform(old.labels), read_platform(new.labels))


def test_a_node_without_the_types_resource_says_nothing_of_it():
    broken = replace(node("T4", **{DRIVER: "535"}), allocatable={}, capacity={})
    configured = ConfiguredCatalog(gpus={"mine": own("mine")}, discover=False)
    assert made(configured, broken).gpus["mine"].platforms == ()


def test_while_a_type_has_no_node_the_table_of_models_says_what_it_can_compute():
    configured = ConfiguredCatalog(gpus={"mine": own("mine")})
    for inventory in (Inventory(), Inventory(nodes=())):
        catalog = assemble_catalog(configured, inventory, table=V100_TABLE, fallback_image="i")
        assert catalog.gpus["mine"].platforms == (Platform(compute=(7, 0)),)


def test_a_choice_of_several_types_has_the_platforms_of_all():
    one, other = node("T4", **{DRIVER: "535"}), node("V100", **{DRIVER: "580"})
    union = own("any", match={}, any_of=("t4", "v100"))
    catalog = made(ConfiguredCatalog(unions={"any": union}), one, other)
    assert catalog.gpus["any"].platforms == (read_platform(one.labels), read_platform(other.labels))


SPOT_LABEL = "karpenter.sh/capacity-type"
SXM_TABLE = AcceleratorTable(
    [Accelerator(slug="v100", name="V100", vendor="nvidia", labels={"gfd": ("V100-SXM2",)}, nvlink=("V100-SXM2",))]
)


def test_a_type_is_spot_where_all_its_nodes_are():
    spot, bare = {SPOT_LABEL: "spot"}, {SPOT_LABEL: "on-demand"}
    nodes = (node("T4", **spot), node("T4", **spot), node("V100", **spot), node("V100", **bare), node("L4"))
    assert {slug: gpu.spot for slug, gpu in made(ConfiguredCatalog(), *nodes).gpus.items()} == {
        "t4": True,
        "v100": None,
        "l4": None,
    }


@pytest.mark.parametrize("said", [True, False])
def test_what_the_admin_says_of_spot_and_links_stands(said: bool):
    configured = ConfiguredCatalog(gpus={"mine": own("mine", spot=said, interconnect="Own")})
    gpu = made(configured, node("T4", **{SPOT_LABEL: "spot" if not said else "on-demand"})).gpus["mine"]
    assert (gpu.spot, gpu.interconnect) == (said, "Own")


def test_a_type_is_linked_where_a_server_can_have_several_of_its_gpus():
    found = {}
    for number in (1, 4):
        inventory = Inventory(nodes=(node("V100-SXM2", number),))
        catalog = assemble_catalog(ConfiguredCatalog(), inventory, table=SXM_TABLE, fallback_image="i")
        found[number] = catalog.gpus["v100"].interconnect
    assert found == {1: None, 4: "NVLink"}


def test_a_choice_of_several_types_says_what_is_so_of_all():
    union = own("any", match={}, any_of=("t4", "v100"))
    nodes = (node("T4", **{SPOT_LABEL: "spot"}), node("V100", **{SPOT_LABEL: "spot"}))
    assert made(ConfiguredCatalog(unions={"any": union}), *nodes).gpus["any"].spot is True


def test_a_policy_goes_with_the_catalog():
    policy = Policy(default=Rule(max_gpus=1))
    assert (made(ConfiguredCatalog(policy=policy)).policy, made(ConfiguredCatalog()).policy) == (policy, None)


SHARES = node("T4-SHARED", **{f"{GPU}.replicas": "4", "pool": "a"})
SLICES = node("T4-MIG-1g.5gb", pool="a")
CONTRADICTING = node("T4", **{f"{GPU}.count": "1", "pool": "a"})


@pytest.mark.parametrize(
    ("labelled", "expected"),
    [
        pytest.param(node("T4", pool="a"), (UnitKind.CARD, 4), id="whole GPUs"),
        pytest.param(SHARES, (UnitKind.SHARED, 1), id="shares"),
        pytest.param(SLICES, (UnitKind.MIG, 4), id="slices"),
        pytest.param(CONTRADICTING, (UnitKind.CARD, 1), id="labels that contradict each other"),
    ],
)
def test_a_described_type_without_unit_and_count_is_what_its_nodes_say(labelled: Node, expected: tuple[UnitKind, int]):
    described = {"t4": own("t4", match={"pool": ("a",)})}
    slugs = frozenset({"t4"})
    gpu = made(ConfiguredCatalog(gpus=described, uncounted=slugs, guessed=slugs), labelled).gpus["t4"]
    assert (gpu.unit, gpu.max_count) == expected


def test_a_described_type_is_what_the_admin_says_although_its_nodes_share():
    described = {"t4": own("t4", match={"pool": ("a",)}, max_count=2)}
    gpu = made(ConfiguredCatalog(gpus=described), SHARES).gpus["t4"]
    assert (gpu.unit, gpu.max_count) == (UnitKind.CARD, 2)


def test_one_node_with_shares_makes_a_described_type_shared():
    described = {"t4": own("t4", match={"pool": ("a",)})}
    slugs = frozenset({"t4"})
    catalog = made(ConfiguredCatalog(gpus=described, uncounted=slugs, guessed=slugs), node("T4", pool="a"), SHARES)
    assert (catalog.gpus["t4"].unit, catalog.gpus["t4"].max_count) == (UnitKind.SHARED, 1)


@pytest.mark.parametrize(("given", "expected"), [(None, 5 * GIB), (40 * GIB, 5 * GIB), (6 * GIB, 6 * GIB)])
def test_a_described_type_of_slices_has_their_memory_unless_the_admin_gives_one(given: int | None, expected: int):
    t4 = Accelerator(slug="x", name="X", vendor="nvidia", memory_bytes=40 * GIB, labels={"gke": ("g",)})
    match = {"cloud.google.com/gke-accelerator": ("g",)}
    slugs = frozenset({"x"})
    catalog = assemble_catalog(
        ConfiguredCatalog(gpus={"x": own("x", match=match, memory_bytes=given)}, uncounted=slugs, guessed=slugs),
        Inventory(nodes=(node("T4-MIG-1g.5gb", **{key: values[0] for key, values in match.items()}),)),
        table=AcceleratorTable([t4]),
        fallback_image="i",
    )
    assert catalog.gpus["x"].memory_bytes == expected
