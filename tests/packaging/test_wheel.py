"""The wheel holds the package with its templates, Helm values, data and compiled messages, and nothing else."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from email.message import Message
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.smoke

# Folder of the repository → where it is in the wheel.
PACKED = {"gpuspawner": "gpuspawner", "templates": "gpuspawner/templates", "helm-values": "gpuspawner/helm-values"}
MINIFIED = sorted(path.name for path in (ROOT / "templates").iterdir() if path.suffix in {".css", ".js"})


def files_of_git(folder: str) -> set[str]:
    """Name the files of a folder that git tracks, or would, relative to it."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = (name for name in listing.split("\0") if name and (ROOT / name).is_file())
    return {name.removeprefix(f"{folder}/") for name in names}


def files_of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def text_of_wheel(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


def syntax_tree(script: Path) -> str:
    """Return a script's syntax tree as JSON, without positions, as the parser inside Node.js reads it."""
    program = """
        const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
        const source = require("fs").readFileSync(process.argv[1], "utf8");
        const tree = parse(source, { ecmaVersion: "latest", sourceType: "module" });
        const isPosition = (key) => key === "start" || key === "end";
        console.log(JSON.stringify(tree, (key, value) => (isPosition(key) ? undefined : value), 1));
    """
    command = ["node", "--expose-internals", "--eval", program, script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def rules(style_sheet: str) -> list[str]:
    """Return a style sheet's lines without comments and space, except space that is a descendant combinator."""
    text = re.sub(r"/\*.*?\*/", "", style_sheet, flags=re.DOTALL)
    text = re.sub(r"\s*([{};,>!])\s*|([(:])\s+|\s+(\))", r"\1\2\3", text)
    return re.sub(r"\s+", " ", text.strip()).replace(";}", "}").replace("}", "}\n").splitlines()


def test_the_wheel_holds_what_git_tracks_and_the_compiled_messages(wheel: Path):
    tracked = {f"{target}/{name}" for folder, target in PACKED.items() for name in files_of_git(folder)}
    expected = tracked | {f"{name.removesuffix('.po')}.mo" for name in tracked if name.endswith(".po")}
    assert {name for name in files_of_wheel(wheel) if ".dist-info/" not in name} == expected


@pytest.mark.parametrize("name", MINIFIED)
def test_the_wheel_holds_a_minified_copy(wheel: Path, name: str):
    source = (ROOT / "templates" / name).read_text()
    copy = text_of_wheel(wheel, f"gpuspawner/templates/{name}")
    assert len(copy) < 0.85 * len(source)
    assert "/*" not in copy


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
@pytest.mark.parametrize("name", [name for name in MINIFIED if name.endswith(".js")])
def test_a_minified_script_has_the_same_syntax_tree(wheel: Path, tmp_path: Path, name: str):
    copy = tmp_path / name
    copy.write_text(text_of_wheel(wheel, f"gpuspawner/templates/{name}"))
    assert syntax_tree(copy) == syntax_tree(ROOT / "templates" / name)


@pytest.mark.parametrize("name", [name for name in MINIFIED if name.endswith(".css")])
def test_a_minified_style_sheet_has_the_same_rules(wheel: Path, name: str):
    copy = text_of_wheel(wheel, f"gpuspawner/templates/{name}")
    assert rules(copy) == rules((ROOT / "templates" / name).read_text())


def test_the_source_archive_holds_the_scripts_as_they_are_written(sdist: Path):
    with tarfile.open(sdist) as archive:
        (member,) = (each for each in archive.getmembers() if each.name.endswith("/templates/form.js"))
        file = archive.extractfile(member)
        assert file.read() == (ROOT / "templates/form.js").read_bytes()


def test_the_wheel_carries_its_licence(wheel: Path):
    assert [name for name in files_of_wheel(wheel) if name.endswith("/licenses/LICENSE")] != []


@pytest.fixture
def other_checkout(tmp_path: Path) -> Path:
    """Return a copy of the checkout in another folder, with other times, and without what git ignores."""
    copy = tmp_path / "elsewhere"
    for name in sorted(files_of_git(".")):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        os.utime(target, (10**9, 10**9))
    return copy


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_a_build_elsewhere_has_the_same_bytes(
    dist: Path, other_checkout: Path, tmp_path: Path, build_one: Callable[[str, Path, Path], Path], kind: str
):
    built = build_one(kind, other_checkout, tmp_path / "dist")
    assert sha256(built.read_bytes()).hexdigest() == sha256((dist / built.name).read_bytes()).hexdigest()


@pytest.fixture
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return email.message_from_string(archive.read(name).decode())


def test_the_readme_is_the_page_of_the_package(metadata: Message):
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_the_package_says_where_its_sources_and_issues_are(metadata: Message):
    names = {each.partition(",")[0] for each in metadata.get_all("Project-URL", [])}
    assert names == {"Homepage", "Documentation", "Changelog", "Issues"}


def test_the_files_carry_the_version_of_the_project(dist: Path):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    names = {path.name for path in dist.iterdir() if path.suffix in {".whl", ".gz"}}
    assert names == {f"gpuspawner-{version}.tar.gz", f"gpuspawner-{version}-py3-none-any.whl"}
