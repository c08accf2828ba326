"""Compute the form, check users' choices and predict whether servers start, all from plain Python values.

The hub and the command line read the inputs from Kubernetes and the settings. Invalid choices and settings raise a
:class:`~gpuspawner.core.errors.GPUSpawnerError`.
This package must not do I/O, read the clock, log or use asyncio; it imports the standard library,
and pydantic to describe what the settings may set.

Each package imports only packages listed before it. All packages may import ``errors`` and ``json_access``, which reads
JSON of unknown shape.

- ``text``: messages and their translation
- ``units``: amounts of CPU and memory, and durations
- ``value_types``: the types of values in the settings
- ``cluster``: nodes, pods and free resources
- ``scheduling``: kube-scheduler's filters
- ``catalog``: the images, GPU types and policies for users' choices
- ``autoscaling``: nodes that an autoscaler may add
- ``request``: the user's choices
- ``discovery``: GPU types found on nodes
- ``policy``: the limits that the admin's rules set for a user
- ``verdict``: whether and when a server would start
- ``warnings``: problems to show to admins
- ``progress``: messages that tell a user how far the start of a server has come
- ``form``: the data of the form
"""
