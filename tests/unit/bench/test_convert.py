from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bench import convert

AMOUNTS = {"cpu_limit": 1, "cpu_guarantee": 1, "mem_limit": "1G", "mem_guarantee": "1G"}
PROFILES = [{"display_name": name, "kubespawner_override": {"image": "a/b:1", **AMOUNTS}} for name in ("A", "B")]


def test_each_choice_of_each_file_is_counted(tmp_path: Path):
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"singleuser": {"profileList": PROFILES}}))
    result = convert.measure(tmp_path)
    values = {name: result.values[name] for name in ("files", "choices", "same", "different_percent", "widened")}
    assert values == {"files": 1, "choices": 3, "same": 3, "different_percent": 0, "widened": 0}
    row = result.details["table"][0]
    assert (row["file"], row["choices"], row["exit_status"], row["what"]) == ("values.yaml", 3, 0, [])


def test_a_folder_without_files_is_named(tmp_path: Path):
    with pytest.raises(SystemExit, match="there are no values files in"):
        convert.measure(tmp_path)
