"""Compute what gpuspawner offers, decides and shows, from plain values.

In: values that the hub and the command line read from Kubernetes and the settings. Out: values, and :mod:`errors`.
This package must not do I/O, read the clock, log or use asyncio; it imports the standard library only.

Each room imports only rooms listed before it (``json_access`` reads untyped JSON for all of them):
``text``, ``units``: messages and their translation; CPU, memory and durations
``cluster``: nodes, pods and free resources
``scheduling``, ``catalog``: kube-scheduler's filters; the GPU types, images and policies that settings describe
``autoscaling``, ``request``: nodes that an autoscaler may add; the user's choices
``discovery``, ``policy``, ``verdict``: GPU types found on nodes; limits; whether and when a server would start
``warnings``, ``progress``, ``form``: problems to show admins; how far a start has come; the data of the form
"""

from gpuspawner.core.errors import GPUSpawnerError, PolicyError, Problem, SelectionError, SettingsError

__all__ = ["GPUSpawnerError", "PolicyError", "Problem", "SelectionError", "SettingsError"]
