"""The limits of a policy, computed a second time and in another way than in gpuspawner.

Nothing of gpuspawner is imported here: it is what gpuspawner is judged by. Each question is answered from the settings
as an administrator writes them, rule by rule, without rules that are put together first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.support.storm.world import IMAGES, Choice, World

Key = tuple[str, ...]
"""The key of a count: the GPUs of a user, those of one type, a person's servers with a GPU, the GPUs of a pool.

Also CPU and memory (GiB) of a person's largest server.
"""
AMOUNTS = ("cpu", "memory")
Setting = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """The rules that matter to one person.

    :param given: one for each group that gives something, with what ``default`` says beneath; else ``default`` alone.
    :param caps: of groups that deny.
    :param own: of the person.
    """

    given: tuple[Setting, ...]
    caps: tuple[Setting, ...]
    own: Setting

    def number(self, read: Callable[[Setting], float | None], *, largest: bool = True) -> float | None:
        """Return a limit, or None if no rule sets one.

        :param read: gets it from one rule.
        :param largest: whether it says how much there may be, and not how much there has to be.
        """
        generous, strict = (max, min) if largest else (min, max)
        offered = [read(rule) for rule in self.given]
        found = None if None in offered else generous(value for value in offered if value is not None)
        for cap in (*self.caps, *([self.own] if self.own.get("deny") else [])):
            said = read(cap)
            found = found if said is None else said if found is None else strict(found, said)
        if not self.own.get("deny") and (said := read(self.own)) is not None:
            return said
        return found

    def grants(self, read: Callable[[Setting], bool | None]) -> bool:
        """Tell whether something may be had at all; nothing said is a yes."""
        return self.number(lambda rule: None if (said := read(rule)) is None else float(said)) != 0


class Rules:
    """The policy and the pools of a world, for whom it is about."""

    def __init__(self, world: World) -> None:
        self._policy = world.policy
        self._pools = world.pools
        groups = {user: {group.casefold() for group in world.groups_of(user)} for user in world.users}
        self._groups = groups
        self._standings = {user: self._standing(user) for user in world.users}

    def denials(self, user: str, choice: Choice) -> list[str]:
        """Return what a choice is denied for, whatever else is in use."""
        of = self._standings[user]
        image = (lambda rule: rule.get("custom_images")) if not choice.image else _has_image(choice.image)
        # Whom no image of the settings is left may start nothing, with an image of their own neither (docs/policy.md).
        is_any_left = any(of.grants(_has_image(slug)) for slug in IMAGES)
        found = [] if is_any_left and of.grants(image) else ["image"]
        for name, amount in (("cpu", choice.cpu), ("memory", float(choice.memory))):
            least = of.number(_bound(name, "min"), largest=False)
            most = of.number(_bound(name, "max"))
            found += [name] if amount < (least or 0) or amount > (math.inf if most is None else most) else []
        if choice.gpu is None:
            return found
        if not self._may_have(user, choice.gpu):
            return [*found, "gpu"]
        per_server = [of.number(_limit("max_gpus_per_server")), self._of_type(user, choice.gpu, "max_gpus_per_server")]
        return found + ["gpus in one server" for most in per_server if most is not None and choice.count > most]

    def load(self, user: str, gpu: str | None, *, count: int) -> Counter[Key]:
        """Return what a server adds to each count."""
        if gpu is None:
            return Counter()
        load: Counter[Key] = Counter({("gpus", user): count, ("type", user, gpu): count, ("servers", user): 1})
        for slug, pool in self._pools.items():
            is_mine = self._groups[user] & {group.casefold() for group in pool["groups"]}
            if is_mine and ("*" in pool["gpus"] or gpu in pool["gpus"]):
                load["pool", slug] = count
        return load

    def most(self, key: Key) -> float:
        """Return how much there may be of what is counted."""
        kind, name = key[:2]
        if kind == "pool":
            return float(self._pools[name]["max_gpus"])
        if kind in AMOUNTS:
            most = self._standings[name].number(_bound(kind, "max"))
            return math.inf if most is None else most
        if kind == "type":
            most = self._of_type(name, key[2], "max_gpus")
        else:
            most = self._standings[name].number(_limit({"gpus": "max_gpus", "servers": "max_servers_with_gpu"}[kind]))
        return math.inf if most is None else most

    def _standing(self, user: str) -> Standing:
        mine = [rule for group, rule in self._policy["groups"].items() if group.casefold() in self._groups[user]]
        default = _whole(self._policy["default"])
        given = tuple(_over(default, _whole(rule)) for rule in mine if not rule.get("deny"))
        caps = tuple(_whole(rule) for rule in mine if rule.get("deny"))
        return Standing(given or (default,), caps, _whole(self._policy["users"].get(user, {})))

    def _may_have(self, user: str, gpu: str) -> bool:
        return self._standings[user].grants(lambda rule: _type_rule(rule, gpu) is not None if "gpus" in rule else None)

    def _of_type(self, user: str, gpu: str, limit: str) -> float | None:
        """Return a limit that rules set for one type; of rules that do not give the type, only caps have a say."""
        of = self._standings[user]
        giving = tuple(rule for rule in of.given if "gpus" not in rule or _type_rule(rule, gpu) is not None)
        # Whose own rule names types, has what it says of them and nothing of what groups say.
        own = of.own
        if "gpus" in own and not own.get("deny"):
            giving, own, caps = (own,), {}, ()
        else:
            caps = of.caps
        if not giving:
            return None
        narrowed = Standing(giving, caps, own)
        return narrowed.number(
            lambda rule: _number((_type_rule(rule, gpu) or {}).get(limit)) if "gpus" in rule else None
        )


def _whole(rule: Setting) -> Setting:
    """Return a rule with what it says between the lines: one that lists images gives no others."""
    return rule if "*" in rule.get("images", ["*"]) else {"custom_images": False, **rule}


def _over(default: Setting, rule: Setting) -> Setting:
    """Lay a group's keys over the default's; of CPU and memory, the least and the most are two keys."""
    merged = {**default, **rule}
    for name in ("cpu", "memory"):
        if name in default and name in rule:
            merged[name] = {**default[name], **rule[name]}
    return merged


def _type_rule(rule: Setting, gpu: str) -> Setting | None:
    """Return what a rule that names types says of one, None where it does not give it."""
    named = rule["gpus"]
    if isinstance(named, Mapping):
        return named.get(gpu, named.get("*"))
    return {} if named == "*" or "*" in named or gpu in named else None


def _has_image(slug: str) -> Callable[[Setting], bool | None]:
    return lambda rule: ("*" in rule["images"] or slug in rule["images"]) if "images" in rule else None


def _limit(key: str) -> Callable[[Setting], float | None]:
    return lambda rule: _number(rule.get(key))


def _bound(name: str, end: str) -> Callable[[Setting], float | None]:
    return lambda rule: _number(rule.get(name, {}).get(end))


def _number(value: Any) -> float | None:
    """Read a limit: ``unlimited``, a number, or GiB."""
    if value is None or value == "unlimited":
        return None if value is None else math.inf
    return float(str(value).removesuffix("G"))
