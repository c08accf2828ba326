"""Combines the admin's configuration with the state of the cluster into an `Offer`.

The input is the spawner's traits, settings files and the Kubernetes client. The output is an `Offer`: the catalog of
choices and the inventory of nodes and pods that it was built from. All spawners of the hub share parsed settings and
the cluster's state. This package contains no code for users, the form or policy decisions.

- `traits`: `GPUSpawnerTraits`, every option of `c.GPUSpawner` with its help text.
- `settings_files`: `ReloadingSettings` merges settings files over the traits' values and reloads changed files.
- `offer`: `OfferFactory` parses settings, owns the `ClusterStore` and makes an `Offer`.
"""
