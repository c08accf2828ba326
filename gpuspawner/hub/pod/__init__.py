"""Puts an admitted choice into KubeSpawner's traits and into the pod manifest.

The admin's trait values and core's `PodRequirements` enter; new trait values, or the pod as it would be created, leave.
The functions copy the admin's values and never change them. The room does not decide whether a choice is allowed.

- `trait_values`: values of all traits for one start.
- `overrides`: the choice in `extra_pod_config` and `extra_container_config`.
- `merge`: merge node affinity, tolerations and lists with the admin's.
- `preview`: the pod of a choice, without creating it.
- `run_time`: end servers whose run time is over.
"""
