"""Combines the admin's configuration with the state of the cluster into an `Offer`.

The spawner's traits, settings files and the Kubernetes client enter. An `Offer` leaves: the catalog of choices and the
inventory it was built from. Parsed settings and the cluster's state are shared by all spawners of the hub. The room
does not know users, the form or policy decisions.

- `traits`: `GPUSpawnerTraits`, every option of `c.GPUSpawner` with its help text.
- `settings_files`: `ReloadingSettings` merges settings files into the traits and reloads them.
- `offer`: `OfferFactory` parses settings, owns the `ClusterStore` and makes an `Offer`.
"""
