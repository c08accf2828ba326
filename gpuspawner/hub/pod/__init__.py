"""Puts a user's admitted choice into KubeSpawner's traits and into the pod manifest.

This package merges a choice's `PodRequirements`, such as its node selector, with the admin's trait values.
`core.request.pod_requirements` computes the `PodRequirements`; `hub.admission` decides whether a choice is allowed. The
output is new trait values, or the pod that KubeSpawner would create. The functions copy the admin's values and never
change them.

- `trait_values`: compute the values of all traits for one start.
- `overrides`: put the choice into `extra_pod_config` and `extra_container_config`.
- `merge`: merge node affinity, tolerations and lists with the admin's values.
- `override_checks`: `parse_settings` validates settings, including the traits in each `kubespawner_override`.
- `preview`: build the pod of a choice without creating it.
- `run_time`: stop servers that exceed their maximum run time.
"""
