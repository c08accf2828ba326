"""Describe what a user can choose, and which nodes belong to each choice.

In: the admin's settings, as values that :mod:`gpuspawner.settings` has validated, and node labels.
Out: a :class:`Catalog` of images, CPU and memory bounds, GPU types, presets, priorities and the admin's policy.
:mod:`gpuspawner.core.discovery` builds the catalog. The form shows the catalog, and the hub checks users' choices
against the catalog. This package must not depend on running pods, the current user's limits, or the form.

- :mod:`.model`: the catalog's classes. Those that settings may set say the keys, their bounds and their descriptions.
- :mod:`.node_gpus`: judges what one unit of a GPU resource is on a node, by all that labels and resources say.
- :mod:`.node_labels`: knows GPU resources and labels by name, and keeps servers without a GPU off GPU nodes.
- :mod:`.accelerators`: looks up GPU models.
- :mod:`.nodes_by_type`: groups nodes by GPU type.
- :mod:`.pod_gpus`: finds which GPUs a pod of any spawner asks for.
- :mod:`.combined_types`: joins GPU types into one choice ("any GPU with 40 GB").
- :mod:`.software`: decides whether an image works with a GPU type.
- :mod:`.image_reference`: parses image references.
- :mod:`.policy_model`: the policy's rules, and the pools of GPUs that groups share.
- :mod:`.kueue`: Kueue's labels and quotas; :mod:`.queue`: the queue in which servers with a GPU wait.
"""
