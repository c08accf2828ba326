"""Which make target needs what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The needs of a purpose besides the Python environment, which everything needs.

    :param hub5: a second environment with the oldest supported JupyterHub and KubeSpawner.
    :param newest: another environment with the newest pre-releases of both.
    :param proxy: configurable-http-proxy, from npm.
    :param cluster: a Kubernetes on this machine: root, Debian packages and Go binaries.
    :param autoscaler: Karpenter beside it.
    :param queue: Kueue beside it.
    :param helm: Helm.
    :param browser: Chromium.
    """

    hub5: bool = False
    newest: bool = False
    proxy: bool = False
    cluster: bool = False
    autoscaler: bool = False
    queue: bool = False
    helm: bool = False
    browser: bool = False


PURPOSES = {
    "demo": Needs(proxy=True, cluster=True),
    "test": Needs(hub5=True, proxy=True, cluster=True, autoscaler=True, queue=True, helm=True, browser=True),
    "check": Needs(),
    "unit": Needs(hub5=True),
    "newest": Needs(newest=True),
    "packaging": Needs(),
    "helm": Needs(helm=True),
    "cluster": Needs(hub5=True, proxy=True, cluster=True, autoscaler=True, queue=True, helm=True),
    "browser": Needs(hub5=True, proxy=True, cluster=True, browser=True),
    "bench": Needs(proxy=True, cluster=True),
    "truth": Needs(cluster=True, autoscaler=True, queue=True, helm=True),
}


def of(purpose: str, *, context: str = "") -> Needs:
    """Look up what ``purpose`` needs; with a ``context`` of the user's own cluster nothing is built or installed."""
    needs = PURPOSES[purpose]
    return Needs(hub5=needs.hub5, proxy=needs.proxy, browser=needs.browser) if context else needs
