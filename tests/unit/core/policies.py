"""A catalog with a policy, and users, for tests of who may have what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuspawner.core.catalog.model import Bounds, Catalog, CustomImages, GPUType, Image, Preset
from gpuspawner.core.catalog.policy_model import GPUPool, Person, Policy, Rule
from gpuspawner.core.policy.allowance import Allowance, resolve_allowance
from gpuspawner.core.policy.usage import RemainingQuota, ServerUsage, sum_usage

GIB = 1024**3
HOUR_S = 3600


def gpu(slug: str, **keys: Any) -> GPUType:
    return GPUType(
        slug=slug,
        display_name=slug.upper(),
        resource="nvidia.com/gpu",
        vendor="nvidia",
        **{"max_count": 8, "match": {"nvidia.com/gpu.product": (slug,)}, **keys},
    )


T4, A100 = gpu("t4"), gpu("a100")
EITHER = gpu("either", match={}, members=(T4, A100))
PRESETS = {
    "big": {"gpu": "a100", "gpu_count": 4, "image": "torch"},
    "long": {"gpu": "t4", "run_time": "12h"},
    "plain": {"cpu": 1},
}
CATALOG = Catalog(
    images={slug: Image(slug=slug, display_name=slug.title(), image=slug) for slug in ("minimal", "torch", "r")},
    cpu=Bounds(min=500, max=16000, step=500, default=2000, guarantee=0.5),
    memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=8 * GIB),
    gpus={each.slug: each for each in (T4, A100, EITHER)},
    custom_images=CustomImages(),
    run_time=Bounds(min=HOUR_S // 4, max=24 * HOUR_S, step=HOUR_S // 4, default=8 * HOUR_S),
    presets={slug: Preset(slug=slug, display_name=slug, options=options) for slug, options in PRESETS.items()},
)


def catalog(policy: Policy | None = None, **changed: Any) -> Catalog:
    return replace(CATALOG, policy=policy, **changed)


def server(gpu_type: str | None = "t4", count: int = 1, **keys: Any) -> ServerUsage:
    return ServerUsage(**{"owner": "ada", "name": "other", "gpu": gpu_type, "count": count, **keys})


def pool(slug: str = "physics", *, groups: Iterable[str] = ("physics",), most: int = 4, **keys: Any) -> GPUPool:
    gpus = keys.get("gpus", frozenset({"a100"}))
    return GPUPool(slug=slug, display_name=slug.title(), groups=frozenset(groups), gpus=gpus, max_gpus=most)


def allowed(
    policy: Policy | Rule | None = None,
    *,
    servers: Iterable[ServerUsage] = (),
    groups: Iterable[str] | None = (),
    left: Mapping[str, int] | None = None,
    known: bool = True,
    **changed: Any,
) -> Allowance:
    """Return what ada may have in her default server.

    :param left: by the namespace's quotas.
    :param changed: of the catalog.
    """
    usage = sum_usage(
        "ada", servers, excluding="", quota=None if left is None else RemainingQuota(left=left), known=known
    )
    person = Person(name="ada", groups=None if groups is None else frozenset(groups))
    said = Policy(default=policy) if isinstance(policy, Rule) else policy
    return resolve_allowance(catalog(said, **changed), person, usage=usage)
