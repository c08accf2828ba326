"""The command line: write the generated pages anew, and build the site."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from docsite import reference

ROOT = reference.ROOT


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m docsite", description=__doc__)
    parser.add_argument("--reference", action="store_true", help="only write the pages of docs/reference")
    options = parser.parse_args(arguments)
    for _path in reference.write():
        pass
    return 0 if options.reference else build("site")


def build(folder: str) -> int:
    """Build the site into a folder, and return the exit status; a link that leads nowhere is an error."""
    # mkdocs-material tells of plans for another program at each start.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
