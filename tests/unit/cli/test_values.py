from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.values import load
from gpuspawner.core.errors import SettingsError


def files(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def test_files_are_merged_as_helm_does(tmp_path: Path):
    lower = "hub: {config: {GPUSpawner: {images: {a: {image: a}, b: {image: b}}, cpu: {max: 4}}}}\nlist: [1, 2]"
    upper = "hub: {config: {GPUSpawner: {images: {a: null, b: {order: 1}}}}}\nlist: [3]"
    values = load(files(tmp_path, lower, upper))
    assert values.settings == {"images": {"a": None, "b": {"image": "b", "order": 1}}, "cpu": {"max": 4}}
    assert values.merged["list"] == [3]


@pytest.mark.parametrize(("text", "told"), [("a: [", "is no YAML"), ("- 1", "must hold a mapping")])
def test_what_is_no_values_file_is_refused_by_its_name(tmp_path: Path, text: str, told: str):
    (file,) = files(tmp_path, text)
    with pytest.raises(SettingsError, match=told) as refused:
        load([file])
    assert refused.value.field == file


def test_an_empty_file_says_nothing(tmp_path: Path):
    assert load(files(tmp_path, "", "# nothing")).settings == {}
