"""A hub's users, groups and rules, and what users ask for, drawn at random: the same seed draws the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

CARD_LABEL = "storm.example/card"
TYPES = {"red": "nvidia.com/gpu", "green": "nvidia.com/gpu", "blue": "amd.com/gpu", "real": "nvidia.com/gpu"}
"""Slug of each GPU type → resource; types with the same one differ in a label of their nodes."""
REAL, REAL_GPUS = "real", 4
"""The type of the node that runs pods, and how many it has; no other type ever runs out."""
TAINT = "storm.example/real"
IMAGES = ("lab", "torch", "stats")
SERVER_NAMES = ("", "second", "third")
GROUPS = ("Physics", "astro", "STRASSE", "ml", "Bio", "chem", "course-1", "course-2", "staff", "Guests", "probation")
EVERYONE = "everyone"
CPUS = (0.5, 1, 2, 4, 6, 8)
MEMORIES = (1, 2, 4, 8, 12, 16)
"""In GiB."""
MAX_COUNT = 8
_COUNTS = ("max_gpus", "max_gpus_per_server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A user's choice.

    :param image: slug, empty for a reference of one's own.
    :param memory: in GiB.
    :param count: GPUs; 0 without one.
    """

    image: str
    cpu: float
    memory: int
    gpu: str | None = None
    count: int = 0

    def options(self, *, own_image: str) -> dict[str, object]:
        """Return the choice as the REST API takes it."""
        image = {"image": self.image} if self.image else {"custom_image": own_image}
        gpu = {"gpu": self.gpu, "gpu_count": self.count} if self.gpu else {"gpu": None}
        return {"v": 1, **image, "cpu": self.cpu, "memory": f"{self.memory}G", **gpu}

    def fields(self, *, own_image: str) -> dict[str, str]:
        """Return the choice as the form sends it."""
        image = {"image": self.image, "custom_image": "" if self.image else own_image}
        gpu = {"gpu": self.gpu or "", "gpu_count": str(self.count or 1)}
        return {**image, "cpu": str(self.cpu), "memory": str(self.memory), **gpu}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that was drawn.

    :param members: group → users, as the hub has them.
    :param policy: the setting of that name; ``pools`` likewise.
    """

    users: tuple[str, ...]
    members: dict[str, list[str]]
    policy: dict[str, Any]
    pools: dict[str, Any] = field(default_factory=dict)

    def groups_of(self, user: str) -> list[str]:
        return [group for group, users in self.members.items() if user in users]


def draw_world(random: Random, *, users: int) -> World:
    """Draw users, groups, rules and pools."""
    names = tuple(f"user-{number:03}" for number in range(users))
    members: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in names:
        for group in random.sample(GROUPS, random.choice((0, 1, 1, 1, 2, 2, 3))):
            members[group].append(name)
    members[EVERYONE] = list(names)
    # In the settings a group may be written in other cases than in the hub, "STRASSE" with a letter of its own.
    written = {group: random.choice((group, group.lower(), group.upper())) for group in GROUPS}
    written["STRASSE"] = "straße"
    deny = {"probation", random.choice(GROUPS[:-1])}
    rules = {
        written[group]: {**_rule(random), **({"deny": True} if group in deny else {})}
        for group in GROUPS
        if group in deny or random.random() < 0.8
    }
    own = {name: _rule(random) for name in random.sample(names, users // 6)}
    for name in random.sample(sorted(own), len(own) // 3):
        own[name]["deny"] = True
    default = {"max_gpus": 3, "max_servers_with_gpu": 2, "gpus": ["red", "green"], "images": ["lab", "torch"]}
    policy = {"default": {**default, **_rule(random)}, "groups": rules, "users": own}
    return World(users=names, members=members, policy=policy, pools=_pools(random, written))


def draw_choice(random: Random) -> Choice:
    """Draw a choice that is right for the catalog, and often more than the user may have."""
    image = random.choice((*IMAGES, *IMAGES, ""))
    cpu, memory = random.choice(CPUS[: random.choice((2, 4, 6))]), random.choice(MEMORIES[: random.choice((2, 4, 6))])
    if random.random() < 0.2:
        return Choice(image=image, cpu=cpu, memory=memory)
    count = random.choice((1, 1, 1, 1, 1, 2, 2, 2, 3, 4))
    return Choice(image=image, cpu=cpu, memory=memory, gpu=random.choices(tuple(TYPES), (6, 6, 6, 1))[0], count=count)


def settings_of(world: World, *, image: str) -> dict[str, Any]:
    """Return the section ``GPUSpawner`` of the hub; all images are the same one, and may be named as well."""
    return {
        "images": {slug: {"display_name": slug, "image": image} for slug in IMAGES},
        "custom_images": {"allowed": True, "registries": [image.partition("/")[0]]},
        "cpu": {"min": 0.5, "max": 8, "step": 0.5, "default": 1, "guarantee": 0.05},
        "memory": {"min": "1G", "max": "16G", "step": "1G", "default": "2G", "guarantee": 0.05},
        "gpus": {
            slug: {
                "display_name": slug,
                "resource": resource,
                "match": {CARD_LABEL: [slug]},
                "max_count": REAL_GPUS if slug == REAL else MAX_COUNT,
                "tolerations": [{"key": TAINT, "operator": "Exists"}] if slug == REAL else [],
            }
            for slug, resource in TYPES.items()
        },
        "discover_gpus": False,
        "policy": world.policy,
        "pools": world.pools,
    }


def _rule(random: Random) -> dict[str, Any]:
    """Draw what a rule says; each key may be left out."""
    said: dict[str, Any] = {
        "images": random.choice((["*"], ["lab"], ["lab", "torch"], ["torch", "stats"])),
        "custom_images": random.random() < 0.7,
        "gpus": _types(random),
        "max_gpus": random.choice((1, 2, 2, 3, 4, 6, "unlimited")),
        "max_gpus_per_server": random.choice((1, 2, 2, 3, "unlimited")),
        "max_servers_with_gpu": random.choice((1, 1, 2, 2, 3, "unlimited")),
        "cpu": random.choice(({"max": 4}, {"max": 8}, {"min": 1}, {"min": 1, "max": 6})),
        "memory": random.choice(({"max": "4G"}, {"max": "12G"}, {"min": "2G"}, {"min": "2G", "max": "8G"})),
    }
    return _consistent({key: value for key, value in said.items() if random.random() < 0.4})


def _types(random: Random) -> Any:
    """Draw the GPU types of a rule in one of the forms that a setting has."""
    some = random.sample(tuple(TYPES), random.choice((1, 2, 3, 4)))
    limited = {slug: _type_rule(random) for slug in some}
    return random.choice(("*", ["*"], some, limited, limited, {**limited, "*": _type_rule(random)}))


def _type_rule(random: Random) -> dict[str, Any]:
    said = {"max_gpus": random.choice((1, 2, 3, "unlimited")), "max_gpus_per_server": random.choice((1, 2, 3))}
    return _consistent({key: value for key, value in said.items() if random.random() < 0.5})


def _consistent(said: dict[str, Any]) -> dict[str, Any]:
    """Leave out what settings do not take: more GPUs in one server than in all."""
    most, in_one = (math.inf if said.get(key) == "unlimited" else said.get(key, 0) for key in _COUNTS)
    if "max_gpus" in said and in_one > most:
        del said["max_gpus_per_server"]
    return said


def _pools(random: Random, written: dict[str, str]) -> dict[str, Any]:
    pools: dict[str, Any] = {"real": {"groups": [EVERYONE], "gpus": [REAL], "max_gpus": REAL_GPUS}}
    for number in range(4):
        groups = [written[group] for group in random.sample(GROUPS, random.choice((1, 2, 3)))]
        gpus = random.choice((["*"], *([slug] for slug in TYPES), ["red", "blue"]))
        pools[f"pool-{number}"] = {
            "display_name": f"Pool {number}",
            "groups": groups,
            "gpus": gpus,
            "max_gpus": random.choice((3, 6, 10, 16)),
        }
    return pools
