"""The steps that make Python and Node environments, each skipped while nothing they depend on has changed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from devcluster.preparation.runner import Step

STAMP = ".gpuspawner-stamp.json"


def python_steps(root: Path, *, hub5: bool, newest: bool = False) -> list[Step]:
    """Make ``.venv`` and, where asked for, ``.venv-hub5`` and ``.venv-newest``; these use the first one's uv."""
    steps = [_python_step(root, ".venv", constraints="hub6.txt", extra="dev")]
    if hub5:
        steps.append(_python_step(root, ".venv-hub5", constraints="hub5.txt", extra="test"))
    if newest:
        steps.append(_newest_step(root))
    return steps


def node_step(root: Path) -> Step:
    """Install the Node programs of package.json exactly as package-lock.json says."""
    folder = root / "node_modules"
    stamp = {"inputs": _digest(root / "package.json", root / "package-lock.json")}
    return Step(
        name="node",
        what="configurable-http-proxy",
        is_done=lambda: _read_stamp(folder) == stamp,
        commands=lambda: [["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]],
        finish=lambda: _write_stamp(folder, stamp),
    )


def _python_step(root: Path, name: str, *, constraints: str, extra: str) -> Step:
    folder = root / name
    pins, left_out = root / "constraints" / constraints, root / "constraints" / "left-out.txt"
    # Scripts and the editable install name the folder and the interpreter: when one moved, start afresh.
    place = {"root": str(root), "python": f"{sys.executable} {sys.version}"}
    # The install compiles the catalogues of messages.
    catalogues = sorted((root / "gpuspawner" / "locale").glob("*.po"))
    stamp = place | {"inputs": _digest(root / "pyproject.toml", root / "hatch_build.py", pins, left_out, *catalogues)}

    def commands() -> Sequence[Sequence[str]]:
        old = _read_stamp(folder)
        moved = bool(old) and {key: old.get(key) for key in place} != place
        make = [sys.executable, "-m", "venv", *(["--clear"] if moved else [])]
        python = str(folder / "bin" / "python")
        uv = str(root / ".venv" / "bin" / "uv")
        install = [uv, "pip", "install", "--python", python, "--constraint", str(pins), "--build-constraint", str(pins)]
        if name == ".venv":
            quiet_pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            first = [[*make, str(folder)], [*quiet_pip, "--constraint", str(pins), "uv"]]
        else:
            first = [[*make, "--without-pip", str(folder)]]
        # Notebook servers run from a read-only mount of it, where Python could not keep what it compiles.
        install += ["--excludes", str(left_out), "--compile-bytecode", "--editable", f".[{extra}]"]
        # Of an environment that had it.
        uninstall = [uv, "pip", "uninstall", "--python", python, "--requirements", str(left_out)]
        return [*first, install, uninstall]

    return Step(
        name=f"python {name}",
        what=f"gpuspawner and what it needs, pinned by constraints/{constraints}",
        is_done=lambda: _read_stamp(folder) == stamp and (folder / "bin" / "python").exists(),
        commands=commands,
        finish=partial(_write_stamp, folder, stamp),
    )


def _newest_step(root: Path) -> Step:
    """Make ``.venv-newest`` with the newest pre-releases; anew each time, as there may be newer ones."""
    folder, uv = root / ".venv-newest", str(root / ".venv" / "bin" / "uv")
    python = ["--python", str(folder / "bin" / "python")]
    beyond, left_out = root / "constraints" / "newest.in", str(root / "constraints" / "left-out.txt")
    newest = ["--upgrade", "--prerelease", "allow", "--overrides", str(beyond), "--excludes", left_out]
    return Step(
        name="python .venv-newest",
        what="gpuspawner and the newest pre-releases of what it needs",
        is_done=lambda: False,
        commands=lambda: [
            [sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder)],
            [uv, "pip", "install", *python, *newest, "--editable", ".[test]"],
        ],
        finish=lambda: None,
    )


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read_stamp(folder: Path) -> dict[str, str]:
    try:
        stamp = json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _write_stamp(folder: Path, stamp: dict[str, str]) -> None:
    (folder / STAMP).write_text(json.dumps(stamp, indent=1) + "\n")
