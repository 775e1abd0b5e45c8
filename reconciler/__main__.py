"""`python -m reconciler` and the console script."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line and exit. One short process: the cyclic garbage collector would only cost."""
    gc.disable()
    arguments = sys.argv[1:]
    if arguments in ([], ["-h"], ["--help"]):
        _print_help()
        return
    from reconciler.cli.main import run

    sys.exit(run(arguments))


def _print_help() -> None:
    from reconciler.cli.streams import flush_streams, mend_streams
    from reconciler.cli.verbs import help_text

    mend_streams()
    with suppress(OSError):
        sys.stdout.write(help_text())
    flush_streams()


if __name__ == "__main__":
    main()
