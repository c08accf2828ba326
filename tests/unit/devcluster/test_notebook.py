from __future__ import annotations

import sys
from pathlib import Path

from devcluster import notebook


def test_a_pod_gets_the_interpreter_and_its_environment_read_only() -> None:
    volumes, mounts = notebook.volumes()
    paths = {mount["mountPath"] for mount in mounts}
    for path in (sys.prefix, sys.base_prefix, str(Path(sys.base_prefix).resolve())):
        assert any(Path(path).is_relative_to(there) for there in paths)
    assert all(mount["readOnly"] for mount in mounts)
    assert [volume["hostPath"]["path"] for volume in volumes] == [mount["mountPath"] for mount in mounts]


def test_volume_names_are_dns_labels_and_differ() -> None:
    names = [volume["name"] for volume in notebook.volumes()[0]]
    assert len(names) == len(set(names))
    assert all(len(name) <= 63 and name.replace("-", "").isalnum() and name == name.lower() for name in names)


def test_nothing_is_mounted_that_this_machine_lacks() -> None:
    assert all(Path(volume["hostPath"]["path"]).exists() for volume in notebook.volumes()[0])
