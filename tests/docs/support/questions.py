"""Twenty questions of admins, in the words that they would type, and where the documentation answers each."""

from __future__ import annotations

import pytest

QUESTIONS = [
    pytest.param("limit students to one GPU", "how-to/limit-gpus", id="limit"),
    pytest.param("offer MIG", "how-to/mig", id="MIG"),
    pytest.param("hide GPUs from a group", "how-to/hide-gpus", id="hide"),
    pytest.param("RBAC it needs", "reference/rights", id="RBAC"),
    pytest.param("Karpenter", "install/eks-karpenter", id="Karpenter"),
    pytest.param("upgrade", "operations#upgrade", id="upgrade"),
    pytest.param("hub down", "operations#faults-hub-down-api-server-down-node-lost", id="hub down"),
    pytest.param("spot nodes", "how-to/spot-nodes", id="spot"),
    pytest.param("Kueue", "queue", id="Kueue"),
    pytest.param("security model", "security", id="security"),
    pytest.param("several architectures", "how-to/several-architectures", id="architectures"),
    pytest.param("debug a pending server", "how-to/debug-pending-server", id="pending"),
    pytest.param("cull idle servers", "how-to/cull-idle-servers", id="idle"),
    pytest.param("metrics and dashboards", "operations#metrics", id="metrics"),
    pytest.param("uninstall", "how-to/uninstall", id="uninstall"),
    pytest.param("no internet", "how-to/offline", id="offline"),
    pytest.param("homes on NFS", "how-to/nfs-homes", id="NFS"),
    pytest.param("compatibility of versions", "install/compatibility", id="versions"),
    pytest.param("TPU, Gaudi, Neuron", "how-to/accelerators", id="TPU"),
    pytest.param("a field of your own in the form", "how-to/own-field", id="own field"),
]
"""The question, and the page with the section that answers it, by its path in ``docs`` without the suffix."""
