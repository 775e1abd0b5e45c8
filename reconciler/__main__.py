"""`python -m reconciler` and the console script."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit. One short process: the cyclic garbage collector would only cost."""
    gc.disable()
    from reconciler.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
