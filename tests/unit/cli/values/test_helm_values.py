from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.common.findings import FilePosition
from gpuspawner.cli.values.helm_values import load_values, read_values
from gpuspawner.core.errors import SettingsError


def files(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def test_files_are_merged_as_helm_does(tmp_path: Path):
    lower = "hub: {config: {GPUSpawner: {images: {a: {image: a}, b: {image: b}}, cpu: {max: 4}}}}\nlist: [1, 2]"
    upper = "hub: {config: {GPUSpawner: {images: {a: null, b: {order: 1}}}}}\nlist: [3]"
    values = load_values(files(tmp_path, lower, upper))
    assert values.settings == {"images": {"a": None, "b": {"image": "b", "order": 1}}, "cpu": {"max": 4}}
    assert values.merged["list"] == [3]


@pytest.mark.parametrize(
    ("lower", "upper", "merged"),
    [
        ("a: {b: 1}", "a: 2", {"a": 2}),
        ("a: 2", "a: {b: 1}", {"a": {"b": 1}}),
        ("a: {b: 1}", "a: null", {"a": None}),
        ("a: null", "a: {b: 1}", {"a": {"b": 1}}),
        ("a: {b: 1}", "a: {}", {"a": {"b": 1}}),
        ("a: [1, 2]", "a: []", {"a": []}),
    ],
)
def test_a_key_without_a_mapping_in_both_files_comes_from_the_later_one(
    lower: str, upper: str, merged: object, tmp_path: Path
):
    assert load_values(files(tmp_path, lower, upper)).merged == merged


def test_a_place_is_that_of_the_file_that_said_it_last(tmp_path: Path):
    lower, upper = paths = files(tmp_path, "a:\n  b: 1\n  c: 1\n", "\na: {c: 2, d: [x]}\n")
    values = load_values(paths)
    assert (values.locate(("a", "b")), values.locate(("a", "c"))) == (
        FilePosition(lower, 2, 6),
        FilePosition(upper, 2, 8),
    )
    assert (values.locate(("a", "d", 0)), values.locate(("a", "b", "z"))) == (
        FilePosition(upper, 2, 15),
        FilePosition(lower, 2, 6),
    )
    assert (values.locate(("a", "c"), of_key=True), values.locate(("z",))) == (FilePosition(upper, 2, 5), None)


def test_a_null_that_removes_nothing_is_kept_in_mind(tmp_path: Path):
    values = load_values(files(tmp_path, "a: {b: 1}", "a: {b: null, c: null, d: {e: }}"))
    assert values.redundant_nulls == (("a", "c"), ("a", "d", "e"))


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("hub: {config: {GPUSpawner: {}}}", ()),
        ("jupyterhub: {hub: {config: {GPUSpawner: {}}}}", ("jupyterhub",)),
        ("proxy: {x: 1}\nz2jh: {hub: {config: {GPUSpawner: {cpu: {max: 4}}}}}", ("z2jh",)),
        ("singleuser: {}\nother: {}", ()),
        ("jupyterhub: {singleuser: {}}", ("jupyterhub",)),
        ("other: {}", ()),
        ("basehub: {nfs: {}, jupyterhub: {custom: {}, hub: {config: {GPUSpawner: {}}}}}", ("basehub", "jupyterhub")),
        ("basehub: {jupyterhub: {singleuser: {}}}", ("basehub", "jupyterhub")),
        ("a: {b: {z2jh: {hub: {config: {}}}}}", ("a", "b", "z2jh")),
        ("a: {b: {c: {jupyterhub: {hub: {config: {GPUSpawner: {}}}}}}}", ()),
        ("prometheus: {server: {hub: {}}}\nsingleuser: {extraFiles: {hub: {config: {}}}}", ()),
        ("singleuser: {custom: {jupyterhub: {hub: {config: {GPUSpawner: {}}}}}}", ()),
    ],
)
def test_values_below_a_parent_charts_key_are_found(text: str, root: tuple[str, ...], tmp_path: Path):
    assert load_values(files(tmp_path, text)).root == root


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("a: [", "1:5", "is no YAML"),
        ("- 1", "1:1", "must hold a mapping"),
        ("a: 1\na: 2", "2:1: a", "is written twice"),
    ],
)
def test_a_file_without_values_is_refused_by_its_place(tmp_path: Path, text: str, place: str, told: str):
    (file,) = files(tmp_path, text)
    with pytest.raises(SettingsError, match=told) as refused:
        load_values([file])
    assert refused.value.field == f"{file}:{place}"


def test_every_file_that_cannot_be_read_is_reported(tmp_path: Path):
    assert len(read_values(files(tmp_path, "a: [", "b: 1", "c: {")).flaws) == 2


def test_an_empty_file_says_nothing(tmp_path: Path):
    assert load_values(files(tmp_path, "", "# nothing")).settings == {}
