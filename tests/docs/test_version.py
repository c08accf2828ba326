"""The version is in one place, and examples that name it agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from docsite.version import list_examples, read_version, write_version


def checkout(folder: Path) -> Path:
    texts = {
        "pyproject.toml": '[project]\nname = "gpuspawner"\nversion = "0.1.0"\ndependencies = ["x>=0.1.0"]\n',
        "README.md": "pip install gpuspawner-0.1.0-py3-none-any.whl\n",
        "docs/page.of.md": "registry.example.org/k8s-hub-gpuspawner:4.4.0-0.1.0 and chart 4.4.0, 0.1.0 of another\n",
        "helm-values/values.yaml": "image:\n  tag: 4.4.0-0.1.0\nother:\n  tag: 4.4.0\n",
        "helm-values/Dockerfile": "# k8s-hub-gpuspawner:4.4.0-0.1.0\nARG CHART_VERSION=4.4.0\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_all_examples_of_the_repository_name_the_version_of_the_project():
    assert {version for versions in list_examples().values() for version in versions} == {read_version()}


def test_examples_are_in_values_and_pages():
    assert {"docs/install/index.md", "helm-values/Dockerfile", "helm-values/gpuspawner.yaml"} <= set(list_examples())


@pytest.mark.parametrize("version", ["0.2.0", "1.0.0rc1"])
def test_a_version_is_written_everywhere(tmp_path: Path, version: str):
    root = checkout(tmp_path)
    write_version(version, root)
    assert read_version(root) == version
    names = ("README.md", "docs/page.of.md", "helm-values/Dockerfile", "helm-values/values.yaml")
    assert list_examples(root) == {name: [version] for name in names}


def test_other_numbers_stay(tmp_path: Path):
    root = checkout(tmp_path)
    write_version("0.2.0", root)
    assert 'dependencies = ["x>=0.1.0"]' in (root / "pyproject.toml").read_text()
    assert (root / "docs/page.of.md").read_text().endswith("and chart 4.4.0, 0.1.0 of another\n")
    assert (root / "helm-values/values.yaml").read_text().endswith("tag: 4.4.0\n")


@pytest.mark.parametrize("version", ["", "v0.2.0", "0.2", "0.2.0; rm"], ids=["empty", "v", "two numbers", "shell"])
def test_text_that_is_no_version_is_refused(tmp_path: Path, version: str):
    with pytest.raises(ValueError, match="is no version"):
        write_version(version, checkout(tmp_path))
