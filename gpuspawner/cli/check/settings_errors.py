"""Finds values that keep the hub from starting or Helm from rendering the chart, with their positions in the files.

The hub does not start with invalid settings. Helm cannot render the chart with nulls where the chart needs a value.
The module also finds sections that are not mappings, and chart values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuspawner.cli.common.findings import Finding, Severity, describe_type
from gpuspawner.cli.values.chart_config import build_spawner_config, has_unknown_class
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SETTINGS_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.cli.values.trait_sources import locate_problems, make_finding
from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.pod.override_checks import is_unknown_trait
from gpuspawner.hub.startup import check_config

_NEEDED_VALUES = frozenset(
    """
    cull cull.enabled custom debug debug.enabled global httpRoute httpRoute.enabled httpRoute.gateway
    httpRoute.gateway.name httpRoute.gateway.namespace httpRoute.gateway.sectionName hub hub.baseUrl hub.config
    hub.config.JupyterHub hub.config.JupyterHub.subdomain_host hub.db hub.db.pvc hub.db.pvc.storage hub.image
    hub.image.name hub.image.pullSecrets hub.image.tag hub.lifecycle.postStart hub.lifecycle.preStop
    hub.livenessProbe hub.livenessProbe.enabled hub.networkPolicy hub.networkPolicy.egressAllowRules hub.pdb
    hub.readinessProbe hub.readinessProbe.enabled hub.service hub.service.annotations hub.service.ports
    hub.serviceAccount hub.serviceAccount.create hub.tolerations imagePullSecret imagePullSecret.create
    imagePullSecrets ingress ingress.enabled prePuller prePuller.continuous prePuller.continuous.enabled
    prePuller.continuous.serviceAccount prePuller.continuous.serviceAccount.create prePuller.extraTolerations
    prePuller.hook prePuller.hook.enabled prePuller.hook.image prePuller.hook.image.name
    prePuller.hook.image.pullSecrets prePuller.hook.image.tag prePuller.hook.serviceAccount
    prePuller.hook.serviceAccount.create prePuller.hook.serviceAccountImagePuller
    prePuller.hook.serviceAccountImagePuller.create prePuller.hook.tolerations prePuller.pause prePuller.pause.image
    prePuller.pause.image.name prePuller.pause.image.tag proxy proxy.chp proxy.chp.image proxy.chp.image.name
    proxy.chp.image.pullSecrets proxy.chp.image.tag proxy.chp.livenessProbe proxy.chp.livenessProbe.enabled
    proxy.chp.networkPolicy proxy.chp.networkPolicy.egressAllowRules proxy.chp.pdb proxy.chp.readinessProbe
    proxy.chp.readinessProbe.enabled proxy.chp.tolerations proxy.https proxy.secretSync.image.name
    proxy.secretSync.image.tag proxy.service proxy.service.nodePorts proxy.traefik proxy.traefik.args
    proxy.traefik.command proxy.traefik.hsts.includeSubdomains proxy.traefik.hsts.maxAge proxy.traefik.hsts.preload
    proxy.traefik.image.name proxy.traefik.image.tag proxy.traefik.pdb proxy.traefik.serviceAccount
    proxy.traefik.serviceAccount.create rbac rbac.create rbac.enabled scheduling scheduling.corePods
    scheduling.corePods.nodeAffinity scheduling.corePods.tolerations scheduling.podPriority
    scheduling.userPlaceholder scheduling.userPlaceholder.image scheduling.userPlaceholder.image.name
    scheduling.userPlaceholder.image.pullSecrets scheduling.userPlaceholder.image.tag scheduling.userPods
    scheduling.userPods.nodeAffinity scheduling.userPods.tolerations scheduling.userScheduler
    scheduling.userScheduler.enabled scheduling.userScheduler.image scheduling.userScheduler.image.name
    scheduling.userScheduler.image.pullSecrets scheduling.userScheduler.image.tag scheduling.userScheduler.logLevel
    scheduling.userScheduler.pdb scheduling.userScheduler.pluginConfig scheduling.userScheduler.plugins
    scheduling.userScheduler.serviceAccount scheduling.userScheduler.serviceAccount.create
    scheduling.userScheduler.tolerations singleuser singleuser.cloudMetadata
    singleuser.cloudMetadata.blockWithIptables singleuser.cloudMetadata.ip singleuser.cpu singleuser.extraContainers
    singleuser.extraNodeAffinity singleuser.extraPodAffinity singleuser.extraPodAntiAffinity
    singleuser.extraResource singleuser.extraTolerations singleuser.image singleuser.image.name
    singleuser.image.pullSecrets singleuser.image.tag singleuser.initContainers singleuser.lifecycleHooks.postStart
    singleuser.lifecycleHooks.preStop singleuser.memory singleuser.networkPolicy
    singleuser.networkPolicy.egressAllowRules singleuser.networkTools singleuser.networkTools.image
    singleuser.networkTools.image.name singleuser.networkTools.image.tag singleuser.storage.homeMountPath
    singleuser.storage.type
    """.split()  # noqa: SIM905 - a list of texts would take four times the lines
)
"""Paths in the values of zero-to-jupyterhub 4.4 at which a null makes Helm fail.

The null removes a default that a template or the chart's schema requires, or the schema forbids a null there.
"""


def find_fatal_nulls(values: HelmValues) -> Iterator[Finding]:
    """Yield an error for each null because of which Helm cannot render the chart."""
    for path in _list_nulls(values.get_chart_section(()), ()):
        if ".".join(path) in _NEEDED_VALUES:
            message = (
                "is null, and Helm fails: the chart needs a value here. Leave the key out for the chart's default, or "
                "write an empty list, mapping or text"
            )
            yield make_finding(
                values, (*values.root, *path), severity=Severity.ERROR, code="needed", message=message, of_key=True
            )


def _list_nulls(section: Mapping[str, object], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in section.items():
        if value is None:
            yield (*path, key)
        elif isinstance(value, Mapping):
            yield from _list_nulls(value, (*path, key))


def find_setting_errors(values: HelmValues) -> Iterator[Finding]:
    """Yield an error for each invalid setting. The check is the one that the hub runs at its start."""
    sections = {name: values.get_chart_section((*HUB_CONFIG_PATH, name)) for name in SPAWNER_SECTIONS}
    try:
        check_config({name: section for name, section in sections.items() if section}, with_files=False)
    except SettingsError as error:
        if not has_unknown_class(values.chart):
            yield from locate_problems(error.problems, values)
            return
        yield from locate_problems((problem for problem in error.problems if not is_unknown_trait(problem)), values)
        reason = "KubeSpawner has no such trait. If the hub's own spawner class has none either, the hub does not start"
        unknown = (replace(problem, message=reason) for problem in error.problems if is_unknown_trait(problem))
        yield from locate_problems(unknown, values, severity=Severity.WARNING)


def find_redundant_nulls(values: HelmValues) -> Iterator[Finding]:
    """Yield a warning for each null setting that removes nothing.

    A null removes the value that an earlier values file sets. If no earlier file sets a value, the admin probably
    forgot to write one, as in ``max_count:`` with nothing after the colon. The function skips two kinds of nulls:

    - an entry of ``accelerators``: the null removes a built-in GPU model
    - in a ``kubespawner_override``: the null is the value of a trait, or removes a key of a trait's mapping
    """
    section = (*values.root, *SETTINGS_PATH)
    for path in values.redundant_nulls:
        below = path[len(section) :]
        if path[: len(section)] != section or (len(below) == 2 and below[0] == "accelerators"):  # noqa: PLR2004
            continue
        if "kubespawner_override" in below[:-1]:
            continue
        message = "is null and removes nothing: no file before says anything of it. Is its value missing?"
        yield make_finding(values, path, severity=Severity.WARNING, code="idle_null", message=message)


def find_broken_sections(values: HelmValues) -> Iterator[Finding]:
    """Yield an error if ``hub`` or ``hub.config`` is not a mapping; otherwise, one per chart value of a wrong type.

    If ``hub`` or ``hub.config`` is null, yield nothing: :func:`find_fatal_nulls` reports it.
    """
    home = (*values.root, *HUB_CONFIG_PATH)
    for length in range(1, len(home) + 1):
        path = home[:length]
        section = values.find_value(path)
        if section is None:
            break
        if section.value is None:
            return  # find_fatal_nulls reports the null
        if not isinstance(section.value, dict):
            message = f"must be a mapping, not {describe_type(section.plain)}"
            yield make_finding(values, path, severity=Severity.ERROR, code="wrong_type", message=message)
            return
    try:
        build_spawner_config(values.chart, namespace="default")
    except SettingsError as error:
        for problem in error.problems:
            path = (*values.root, *problem.field.split("."))
            yield make_finding(values, path, severity=Severity.ERROR, code="wrong_type", message=problem.message)
