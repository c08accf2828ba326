"""Building, with a `go` that writes its arguments instead of a program."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from devcluster import build
from devcluster.errors import DevclusterError

GO = """#!/bin/sh
[ "$1" = build ] && echo "$PWD $*" >> "$CALLS"
for word in "$@"; do
    [ "$last" = -o ] && echo program > "$word"
    last=$word
done
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the stand-in for `go` on PATH, and return the file in which it notes its calls."""
    put_go(tmp_path, GO)
    calls = tmp_path / "calls"
    monkeypatch.setenv("GPUSPAWNER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(calls))
    return calls


def put_go(tmp_path: Path, script: str) -> None:
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin" / "go").write_text(script)
    (tmp_path / "bin" / "go").chmod(0o755)


def silent(_text: str) -> None:
    pass


def test_only_what_is_asked_for_is_built_in_its_own_module(calls: Path) -> None:
    folder = build.ensure(["ctr", "etcd"], report=silent)
    assert {path.name for path in folder.iterdir()} == {"ctr", "etcd"}
    first, second = calls.read_text().splitlines()
    assert (first.split()[0].rpartition("/")[2], first.split()[-1]) == ("kubernetes", "go.etcd.io/etcd/server/v3")
    assert (second.split()[0].rpartition("/")[2], second.split()[-1]) == (
        "containerd",
        "github.com/containerd/containerd/v2/cmd/ctr",
    )


def test_existing_programs_need_no_go(calls: Path, tmp_path: Path) -> None:
    folder = build.ensure(["etcd"], report=silent)
    (tmp_path / "bin" / "go").unlink()
    assert folder == build.ensure(["etcd"], report=silent)


def test_missing_go_says_where_to_get_it(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DevclusterError, match=r"Go is missing: install Go 1\.26 or newer from https://go\.dev/dl/"):
        build.ensure(["etcd"], report=silent)


def test_a_failed_build_is_one_line_and_leaves_no_program(calls: Path, tmp_path: Path) -> None:
    put_go(tmp_path, "#!/bin/sh\necho 'go: downloading x v1' >&2; echo 'no space left on device' >&2; exit 1\n")
    with pytest.raises(DevclusterError) as raised:
        build.ensure(["etcd"], report=silent)
    assert str(raised.value) == "building etcd failed: no space left on device"
    assert not (build.folder() / "etcd").exists()


def test_an_unknown_program_is_refused_with_the_known_ones(calls: Path) -> None:
    with pytest.raises(DevclusterError, match="no such program: kubectl; there are etcd, "):
        build.ensure(["kubectl"], report=silent)


def test_two_callers_at_once_build_once(calls: Path) -> None:
    threads = [threading.Thread(target=build.ensure, args=(["etcd"],), kwargs={"report": silent}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls.read_text().splitlines()) == 1


def test_every_tool_is_declared_in_its_go_mod() -> None:
    tools = Path(build.__file__).with_name("tools")
    assert [
        name for name, tool in build.TOOLS.items() if tool.package not in (tools / tool.module / "go.mod").read_text()
    ] == []


def test_sources_that_go_does_not_find_are_an_error_in_one_line(calls: Path, tmp_path: Path) -> None:
    put_go(tmp_path, "#!/bin/sh\necho 'no network' >&2; exit 1\n")
    with pytest.raises(DevclusterError, match=r"^Go does not find the sources of karpenter: no network$"):
        build.sources("karpenter")
