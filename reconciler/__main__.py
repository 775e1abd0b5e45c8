"""`python -m reconciler` and the console script."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit. One short process: the cyclic garbage collector would only cost."""
    gc.disable()
    arguments = sys.argv[1:]
    if arguments in ([], ["-h"], ["--help"]):
        from reconciler.cli.verbs import help_text

        sys.stdout.write(help_text())
        return
    from reconciler.cli.main import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
