"""Set up everything a make target needs: Debian packages, Python and Node environments, Kubernetes binaries.

    python3 devcluster/prepare.py --for demo|test|check|unit|newest|packaging|cluster|browser|bench [--context NAME]

Runs before any virtual environment exists, so it and all it imports use the standard library only. This file keeps to
syntax that older Python versions can read: it has to be able to say that Python is too old.
"""

import sys
from pathlib import Path

OLDEST_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parent.parent


def main():  # type: ignore[no-untyped-def]  # noqa: ANN201 - annotations stay out of what an old Python must read
    """Check the Python version, then hand over to :mod:`devcluster.preparation`."""
    if sys.version_info < OLDEST_PYTHON:
        found, wanted = (".".join(map(str, version)) for version in (sys.version_info[:2], OLDEST_PYTHON))
        sys.stderr.write(
            "missing: Python %s or newer (this is %s): install it, then name it: make PYTHON=python%s ...\n"  # noqa: UP031
            % (wanted, found, wanted)
        )
        return 1
    # Run as a file, Python looks for modules beside it first, where names could hide those of the standard library.
    sys.path[0] = str(ROOT)
    from devcluster.preparation import cli  # noqa: PLC0415 - not before the version is known to do

    return cli.main(sys.argv[1:], ROOT)


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[no-untyped-call]
