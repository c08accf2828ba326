"""Describes what a user can choose, and which nodes belong to each choice.

Enters: the admin's settings, as values that :mod:`gpuspawner.settings` has validated, and node labels.
Leaves: a :class:`Catalog` of images, bounds, GPU types, presets, priorities and the admin's policy. Forms, requests and
verdicts are checked against it; :mod:`gpuspawner.core.discovery` builds it.
It must not know pods that run, the current user's limits, or the form.

:mod:`.model` has the catalog's values. :mod:`.node_labels` reads GPU labels of every vendor and cloud;
:mod:`.accelerators` looks up GPU models. :mod:`.nodes_by_type` groups nodes by GPU type. :mod:`.combined_types` joins
types ("any GPU with 40 GB"). :mod:`.software` decides whether an image works with a GPU type.
:mod:`.image_reference` parses image names. :mod:`.policy_model` has the rules and pools of the policy. :mod:`.kueue`
has Kueue's labels. :mod:`.gpu_node_exclusion` keeps servers without a GPU off GPU nodes.
"""

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.kueue import KueueQueue
from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, Preset, UnitKind
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.nodes_by_type import group_nodes_by_type
from gpuspawner.core.catalog.policy_model import Person, Policy

__all__ = [
    "AcceleratorTable",
    "Bounds",
    "Catalog",
    "GPUType",
    "Image",
    "KueueQueue",
    "Person",
    "Policy",
    "Preset",
    "UnitKind",
    "find_vendor",
    "group_nodes_by_type",
]
