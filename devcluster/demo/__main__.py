"""``python -m devcluster.demo``."""

from __future__ import annotations

import sys

from devcluster.demo.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
