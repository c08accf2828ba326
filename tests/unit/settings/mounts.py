"""A folder that changes as one does where kubelet mounts a ConfigMap or a Secret.

kubelet writes into a new folder, lets a link named ``..data`` point to it in one step, and only then puts links to new
files beside it and takes away those to files that are gone (AtomicWriter in pkg/volume/util/atomic_writer.go).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path


class Mount:
    """Such a folder.

    :param files: name → content.
    """

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        self._writes = 0
        folder.mkdir()
        self.swap(files)

    def swap(self, files: Mapping[str, str], *, finish: bool = True) -> None:
        """Change all files at once.

        :param finish: False = stop right after the link was swapped.
        """
        self._writes += 1
        data = self.folder / "..data"
        old = data.resolve() if data.is_symlink() else None
        new = self.folder / f"..2026_11_22_{self._writes}"
        new.mkdir()
        for name, content in files.items():
            (new / name).write_text(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(data)
        if not finish:
            return
        for shown in self.folder.iterdir():
            if not shown.name.startswith("..") and shown.name not in files:
                shown.unlink()
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        if old is not None:
            shutil.rmtree(old)
