from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.common.findings import Severity
from tests.unit.cli_support import paths, section, told, written

T4 = "resource: nvidia.com/gpu, match: {cloud.google.com/gke-accelerator: nvidia-tesla-t4}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"gpus: {{t4: {{{T4}}}}}\nimages: {{a: {{image: a/b}}}}", [("images.a", "no_cuda")]),
        (f"gpus: {{t4: {{{T4}}}}}\nimages: {{a: {{image: a/b, cuda: '12.8'}}, b: {{image: a/b, vendors: []}}}}", []),
        ("images: {a: {image: a/b}}", []),
        ("gpus: {m: {resource: amd.com/gpu}}\nimages: {a: {image: a/b}}", []),
        (f"gpus: {{t4: {{{T4}}}}}", []),
        (f"gpus: {{t4: {{{T4}, tolerations: []}}}}", [("gpus.t4.tolerations", "untolerated")]),
        ("gpus: {a: {resource: nvidia.com/gpu, match: {kubernetes.azure.com/scalesetpriority: spot}}}",
         [("gpus.a.tolerations", "untolerated")]),
        (f"gpus: {{t4: {{{T4}, scale_up: {{max_nodes: 1, gpus_per_node: 1, minutes: 5}}}}}}",
         [("gpus.t4.scale_up.minutes", "too_short")]),
        (f"gpus: {{t4: {{{T4}, start_timeout: 60, scale_up: {{max_nodes: 1, gpus_per_node: 1, minutes: 4}}}}}}",
         [("gpus.t4.start_timeout", "too_short")]),
        (f"start_timeout: 900\ngpus: {{t4: {{{T4}, scale_up: {{max_nodes: 1, gpus_per_node: 1, minutes: 5}}}}}}", []),
        (f"gpus: {{t4: {{{T4}}}, any: {{resource: nvidia.com/gpu}}}}", [("gpus.any.match", "too_wide")]),
        ("discover_gpus: false", [("discover_gpus", "unused")]),
    ],
)  # fmt: skip
def test_legal_values_without_use_are_reported(text: str, expected: list[tuple[str, str]], tmp_path: Path):
    found = told(written(tmp_path, section(text)))
    assert (paths(found), {each.severity for each in found} <= {Severity.WARNING}) == (expected, True)


def test_a_toleration_of_all_servers_counts(tmp_path: Path):
    beside = "singleuser: {extraTolerations: [{key: nvidia.com/gpu, operator: Exists}]}"
    text = section(f"gpus: {{t4: {{{T4}, tolerations: []}}}}", beside=beside)
    assert told(written(tmp_path, text)) == []
