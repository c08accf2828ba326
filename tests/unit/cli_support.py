"""Values for tests of what is said about them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from gpuspawner.cli.check.command import collect_findings
from gpuspawner.cli.common.findings import Finding, Severity
from gpuspawner.cli.values.helm_values import HelmValues, read_values

Told = list[tuple[str, str, str]]


def written(folder: Path, *texts: str) -> HelmValues:
    """Return the values of some files, which are called 0.yaml and so on."""
    paths = [folder / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(textwrap.dedent(text))
    return read_values([str(path) for path in paths])


def section(text: str, *, beside: str = "") -> str:
    """Return values with a section of gpuspawner, and other values beside ``hub``."""
    config = "hub:\n  config:\n    JupyterHub: {spawner_class: gpuspawner.GPUSpawner}\n    GPUSpawner:\n"
    return config + textwrap.indent(textwrap.dedent(text).strip("\n"), " " * 6) + "\n" + textwrap.dedent(beside)


def told(values: HelmValues, *severities: Severity) -> list[Finding]:
    """Return what is found, of the severities, of all but hints where none is named."""
    wanted = severities or (Severity.ERROR, Severity.WARNING)
    return [each for each in collect_findings(values) if each.severity in wanted]


def paths(found: list[Finding]) -> list[tuple[str, str]]:
    """Return path, without the section, and code of findings."""
    return [(each.path.removeprefix("hub.config.GPUSpawner."), each.code) for each in found]
