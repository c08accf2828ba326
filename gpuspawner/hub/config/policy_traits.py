"""The traits that say who may have what, with examples as Helm values."""

from __future__ import annotations

from traitlets import Dict
from traitlets.config import LoggingConfigurable


class PolicyTraits(LoggingConfigurable):
    """Who may have what of that which is offered."""

    policy = Dict(
        allow_none=True,
        help="""
        Who may have what. Left out: everybody may have all that is offered. ::

            hub:
              config:
                GPUSpawner:
                  policy:
                    default:
                      max_gpus: 1
                      max_servers_with_gpu: 1
                      cpu: {max: 8}
                      memory: {max: 16G}
                      max_runtime: 8h
                    groups:
                      ml:
                        max_gpus: 4
                        max_gpus_per_server: 2
                        max_servers_with_gpu: 2
                        gpus: {a100-80gb: {max_gpus: 2, max_runtime: 4h}, "*": {}}
                      probation: {deny: true, gpus: [a100-80gb], max_gpus: 1}
                    users:
                      ada: {max_gpus: unlimited}

        `default` holds for everybody. Each group of `groups` that a person is in puts its own keys in place of those;
        of several groups the most generous wins, key by key. A group with `deny: true` caps the outcome. The keys of
        `users` come last. `images`, `custom_images`, `gpus`, `max_gpus`, `max_gpus_per_server`, `max_servers_with_gpu`,
        `cpu`, `memory` and `max_runtime` may be said; what nobody says has no limit. `null` removes a group, a person
        or a GPU type of another values file, `enabled: false` a group's or a person's rule. `hide: true` leaves what is
        out of reach out of the form, where it is greyed otherwise. How it all goes together: docs/policy.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    pools = Dict(
        allow_none=True,
        help="""
        GPUs that the people of some groups share, by slug: all their servers together hold at most so many. ::

            hub:
              config:
                GPUSpawner:
                  pools:
                    physics:
                      display_name: Physics
                      groups: [physics, astro]
                      gpus: [a100-80gb]
                      max_gpus: 16

        `gpus` left out stands for all types. Nobody else is kept from these types: that is for `policy` to say.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)
