"""Data folders are found in a checkout; tests/packaging looks for them in a wheel."""

from __future__ import annotations

import pytest

from gpuspawner._resources import data_dir


@pytest.mark.parametrize(("folder", "file"), [("templates", "form.html"), ("helm-values", "rbac.yaml")])
def test_a_data_folder_has_its_files(folder: str, file: str):
    assert (data_dir(folder) / file).is_file()


def test_a_folder_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match="'nonsense'"):
        data_dir("nonsense")
