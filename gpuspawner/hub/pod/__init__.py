"""Puts a user's admitted choice into KubeSpawner's traits and into the pod manifest.

The input is the admin's trait values and the choice's `PodRequirements`. The output is new trait values, or the pod
that KubeSpawner would create. The functions copy the admin's values and never change them. `hub.admission` decides
whether a choice is allowed.

- `trait_values`: compute the values of all traits for one start.
- `overrides`: put the choice into `extra_pod_config` and `extra_container_config`.
- `merge`: merge node affinity, tolerations and lists with the admin's values.
- `preview`: build the pod of a choice without creating it.
- `run_time`: stop servers that exceed their maximum run time.
"""
