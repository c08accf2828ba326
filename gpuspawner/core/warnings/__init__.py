"""Finds what an admin should fix: unusable GPUs, presets that cannot start, settings that name missing GPU types.

Input: the nodes, the catalog built from the nodes, and the presets and the policy in the settings.
Output: :class:`AdminWarning` values, and their texts for the form and the hub's log. Only admins may see warnings,
because warnings name nodes, labels and taints. This package uses neither pods nor user options.

:mod:`.nodes` checks the nodes' GPUs. :mod:`.presets_and_policy` checks presets, the GPU types in the policy's rules and
pools, and GPUs in KubeSpawner's traits. :mod:`.wording` summarizes and shortens warnings for display.
"""
