"""The group of all verbs. A verb's module is imported when the verb is called, so that `--help` stays quick."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from reconciler.cli.output import report_failure, say, show
from reconciler.cli.streams import flush_streams, mend_streams
from reconciler.cli.verbs import MODULES, VERBS, VERBS_OF_OTHERS, first_help, help_text, program_name
from reconciler.errors import ExitCode
from reconciler.lazy_libraries import lazy_libraries

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE = "_RECONCILER_COMPLETE"
"""The variable in which a shell's script asks for completions."""


class _Verbs(click.Group):
    """Knows the verbs by name; loads only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        with lazy_libraries():
            module = importlib.import_module(f"reconciler.cli.{MODULES[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from reconciler.messages import nearest

            here = VERBS_OF_OTHERS.get(args[0])
            listed = f"; `{program_name()} --help` lists them"
            hint = f"; here it is {here}" if here else nearest(args[0], VERBS) or listed
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=words) for verb, words in VERBS.items() if verb.startswith(incomplete)]
        return verbs or click.Command.shell_complete(self, ctx, incomplete)

    def get_help(self, ctx: click.Context) -> str:
        return help_text().rstrip("\n")


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="reconciler", message="%(package)s %(version)s")
def cli() -> None:
    """All verbs; their help is in verbs.py."""


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; whatever goes wrong is said in one line each, never as a traceback."""
    mend_streams()
    code = _run(arguments)
    flush_streams()
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        if not arguments and COMPLETE not in os.environ:
            show(first_help())
            return ExitCode.DONE
        called = cli.main(list(arguments), program_name(), COMPLETE, standalone_mode=False)
        return int(called or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except SystemExit as answered:  # a shell that asked
        return int(answered.code or 0)
    except (KeyboardInterrupt, click.Abort) as stopped:
        if isinstance(stopped.__cause__, EOFError):  # click takes one for Ctrl-D; it is a file that was cut
            return report_failure(stopped.__cause__, arguments)
        say("error: interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place: a bug is one line too
        return report_failure(error, arguments)
