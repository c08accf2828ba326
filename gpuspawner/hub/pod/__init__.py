"""Puts a user's admitted choice into the pod that KubeSpawner builds.

`core.request.pod_requirements` computes a choice's `PodRequirements`; `hub.admission` decides whether it is allowed.
The output is a pod. The functions never change the admin's values.

- `patch`: put a choice into a pod, the one way for forms, `explain` and starts.
- `admin_values`: read what KubeSpawner's own traits give each server.
- `override_checks`: `parse_settings` validates settings, including the traits in each `kubespawner_override`.
- `preview`: build the pod of a choice without creating it.
- `run_time`: stop servers that exceed their maximum run time.
"""
