"""Compute what gpuspawner offers, decides and shows; inputs and results are plain Python values.

The hub and the command line read the inputs from Kubernetes and the settings. Invalid inputs raise :mod:`errors`.
This package must not do I/O, read the clock, log or use asyncio; it imports the standard library only.

Each package imports only packages listed before it (``json_access`` reads untyped JSON for all of them):
``text``, ``units``: messages and their translation; amounts of CPU and memory, and durations
``cluster``: nodes, pods and free resources
``scheduling``, ``catalog``: kube-scheduler's filters; the images, GPU types and policies for users' choices
``autoscaling``, ``request``: nodes that an autoscaler may add; the user's choices
``discovery``, ``policy``, ``verdict``: GPU types found on nodes; limits; whether and when a server would start
``warnings``, ``progress``, ``form``: problems to show admins; how far a start has come; the data of the form
"""

from gpuspawner.core.errors import GPUSpawnerError, PolicyError, Problem, SelectionError, SettingsError

__all__ = ["GPUSpawnerError", "PolicyError", "Problem", "SelectionError", "SettingsError"]
