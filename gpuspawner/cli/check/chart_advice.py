"""Values of the chart that are legal and at odds with gpuspawner."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from gpuspawner.cli.common.findings import Finding, Severity, dotted
from gpuspawner.cli.values.chart import set_by_chart, wants_charts_tag
from gpuspawner.cli.values.chart_values import expressions, required_terms, trait, warning
from gpuspawner.cli.values.values import CONFIG, SECTION, SPAWNERS, Values, merged_settings
from gpuspawner.core.catalog.node_gpus import vendor_of
from gpuspawner.core.text.quoting import listing, quote

SPAWNER_CLASS = "gpuspawner.GPUSpawner"
_OWN_CLASSES = frozenset({SPAWNER_CLASS, "gpu", "gpuspawner.hub.spawner.GPUSpawner"})
"""Its name, and that of its entry point."""
_OTHER_CLASSES = frozenset({"kubespawner", "kubespawner.KubeSpawner", "simple", "localprocess", "docker"})
_NEAR = 0.75


def chart_advice(values: Values) -> Iterator[Finding]:
    """Yield what is to be said of the values around the settings."""
    yield from _spawner_class(values)
    yield from _profiles(values)
    yield from _terms(values)
    yield from _gpus_for_all(values)
    yield from _idle_base(values)
    yield from _tagless_image(values)


def _spawner_class(values: Values) -> Iterator[Finding]:
    section = values.at((*CONFIG, "JupyterHub"))
    path = (*values.root, *CONFIG, "JupyterHub", "spawner_class")
    given = section.get("spawner_class")
    if given is None:
        is_ours = values.settings or merged_settings(values)
        if any("gpuspawner" in str(script) for script in values.at(("hub", "extraConfig")).values()):
            return  # what a script makes of it is not known here
        if is_ours:
            message = f"is missing: without {SPAWNER_CLASS} there, nothing reads the settings of gpuspawner"
            yield warning(values, path, code="missing", message=message)
        else:
            message = "there is nothing of gpuspawner in these values"
            yield Finding(severity=Severity.WARNING, code="missing", path=dotted(SECTION), message=message)
    elif isinstance(given, str) and given not in _OWN_CLASSES:
        near = given in _OTHER_CLASSES or difflib.SequenceMatcher(None, given, SPAWNER_CLASS).ratio() > _NEAR
        if near or not given:
            message = f"must be {SPAWNER_CLASS}, not {quote(given)}"
            yield Finding(
                severity=Severity.ERROR, code="bad_value", path=dotted(path), message=message, place=values.where(path)
            )
        else:
            message = f"is not {SPAWNER_CLASS}: is {quote(given)} a subclass of it?"
            yield warning(values, path, code="other_class", message=message)


def _profiles(values: Values) -> Iterator[Finding]:
    profiles = trait(values, "profile_list")
    if profiles is not None and profiles.value and (values.settings or merged_settings(values)):
        message = (
            "is not shown to anybody: gpuspawner's form takes its place. `gpuspawner convert` makes presets of the "
            "profiles; an empty list takes them away"
        )
        yield warning(values, profiles.path, code="unused", message=message)


def _terms(values: Values) -> Iterator[Finding]:
    """Yield that required terms are alternatives, where they do not look like ones."""
    said = required_terms(values)
    if said is None:
        return
    asked = [frozenset(str(each.get("key")) for each in expressions(term)) for term in said.value]
    if len(set(asked)) > 1:
        each = listing([" and ".join(sorted(keys)) or "nothing" for keys in asked], longest=5)
        message = (
            f"has {len(asked)} terms, and a node need fit only one of them ({each}): what each server's node must fit "
            "besides its GPU type belongs into the matchExpressions of one term"
        )
        yield warning(values, said.path, code="widens", message=message)


def _gpus_for_all(values: Values) -> Iterator[Finding]:
    for name in ("extra_resource_limits", "extra_resource_guarantees"):
        said = trait(values, name)
        if said is None or not isinstance(said.value, Mapping):
            continue
        for resource in filter(vendor_of, said.value):
            message = "is taken off each server: it gets the GPUs that are picked, and no others"
            yield warning(values, (*said.path, resource), code="unused", message=message)


def _idle_base(values: Values) -> Iterator[Finding]:
    """Yield what the section of KubeSpawner's base class says in vain."""
    base = (*CONFIG, SPAWNERS[-1])
    for name in values.at(base):
        if instead := set_by_chart(values.chart, str(name)):
            nearer = (*CONFIG, SPAWNERS[1], name)
            message = f"has no effect, because the chart says it of KubeSpawner: say {instead}, or {dotted(nearer)}"
            yield warning(values, (*values.root, *base, name), code="unused", message=message)


def _tagless_image(values: Values) -> Iterator[Finding]:
    if wants_charts_tag(values.chart):
        message = (
            "has no tag beside it: the chart puts the tag of its own image behind the name, which this one hardly has. "
            "Say singleuser.image.tag; null there leaves the name as it is"
        )
        yield warning(values, (*values.root, "singleuser", "image", "name"), code="missing", message=message)
