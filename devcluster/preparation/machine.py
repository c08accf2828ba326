"""The steps that change the machine outside the checkout: Debian packages and the cache of Kubernetes binaries."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from devcluster import build
from devcluster.preparation.needs import Needs
from devcluster.preparation.runner import Step
from devcluster.preparation.system import BROWSER_PACKAGES, NODE_PACKAGES, Package

APT_GET = ["apt-get", "--quiet", "--option=Acquire::Retries=3", "--option=DPkg::Lock::Timeout=300"]


def packages_to_install(needs: Needs) -> tuple[Package, ...]:
    """List the Debian packages whose programs are needed and not there."""
    wanted = (*(NODE_PACKAGES if needs.cluster else ()), *(BROWSER_PACKAGES if needs.browser else ()))
    return tuple(package for package in wanted if not package.is_installed())


def binaries_to_build(needs: Needs) -> Sequence[str]:
    """List the binaries that are needed and not in the cache: Kubernetes', and what tests run beside it."""
    beside = {"karpenter": needs.autoscaler, "kueue": needs.queue, "helm": needs.helm}
    wanted = (*(build.CLUSTER if needs.cluster else ()), *(name for name, is_needed in beside.items() if is_needed))
    return build.missing(wanted)


def debian_step(packages: tuple[Package, ...]) -> Step:
    """Install ``packages`` and nothing that merely goes well with them."""
    names = [package.name for package in packages]
    return Step(
        name="debian",
        what=" ".join(names),
        is_done=lambda: not names,
        commands=lambda: [
            [*APT_GET, "update"],
            [*APT_GET, "install", "--yes", "--no-install-recommends", *names],
        ],
        environment={"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
    )


def kubernetes_step(binaries: Sequence[str]) -> Step:
    """Build ``binaries`` from their Go modules."""
    return Step(
        name="kubernetes",
        what=f"{len(binaries)} programs built from Go modules",
        is_done=lambda: not binaries,
        commands=lambda: [[sys.executable, "-m", "devcluster.build", *binaries]],
    )
