"""Start of the command line: `python -m reconciler` and the console script."""

from __future__ import annotations

import atexit
import gc
import os
import sys


def main() -> None:
    """Run the command line and exit. In a short process the cyclic garbage collector would only cost."""
    gc.disable()
    arguments = sys.argv[1:]
    if arguments in ([], ["-h"], ["--help"]) and "_RECONCILER_COMPLETE" not in os.environ:
        sys.exit(_help(asked=bool(arguments)))
    from reconciler.lazy_libraries import lazy_libraries

    with lazy_libraries():
        from reconciler.cli.app import run
    _leave(run(arguments))


def _leave(code: int) -> None:
    """End the process with `code` at once: the interpreter would first take apart, one by one, all that was read."""
    from reconciler.cli.streams import flush_streams

    atexit._run_exitfuncs()
    flush_streams()
    os._exit(code)


def _help(*, asked: bool) -> int:
    """Print the help, without a library; where it was not asked for, what to begin with. Return the exit code."""
    from reconciler.cli.streams import flush_streams, mend_streams
    from reconciler.cli.verbs import first_help, help_text

    mend_streams()
    code = 0
    try:
        sys.stdout.write(help_text() if asked else first_help())
        sys.stdout.flush()
    except BrokenPipeError:  # a reader who has enough
        pass
    except OSError as error:
        sys.stderr.write(f"error: operating system: {error.strerror}\n")
        code = 1
    flush_streams()
    return code


if __name__ == "__main__":
    main()
