"""Find GPU types by the labels of nodes, and build the catalog from these types and the admin's settings.

In: the admin's settings as a :class:`ConfiguredCatalog`, an inventory of the cluster, and the table of GPU models.
Out: the :class:`~gpuspawner.core.catalog.model.Catalog` that users choose from. If the settings and the labels of nodes
describe the same nodes, the settings win.
This package must not depend on the user, the policy's decisions, the form, or whether a server would start.

:mod:`.discover` turns node labels into GPU types, and groups nodes of the same kind to save time. Each type gets the
usual tolerations for its resource, for example for the taint ``nvidia.com/gpu``. The module also recognizes GPU nodes,
spot nodes and NVLink by label, and finds the largest node.
:mod:`.build_catalog` adds the settings' GPU types, removes the nodes of these types from the types found by labels, and
drops invalid presets.
"""
