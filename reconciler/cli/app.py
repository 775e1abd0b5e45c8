"""The group of all verbs. A verb's module is imported when the verb is called, so that `--help` stays quick."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class, shell_complete

from reconciler.cli.options import Options, argument, verb
from reconciler.cli.output import report_failure, say, show, show_rows
from reconciler.cli.streams import flush_streams, mend_streams
from reconciler.cli.verbs import MODULES, VERBS, VERBS_OF_OTHERS, first_help, help_text, program_name
from reconciler.errors import ExitCode

COMPLETE = "_RECONCILER_COMPLETE"
"""The variable in which a shell's script asks for completions."""

_NAME = "reconciler"


class CompletionOptions(Options):
    shell: str = argument("{bash|zsh|fish}", type=click.Choice(["bash", "zsh", "fish"]))


@verb("completion", CompletionOptions)
def completion_command(options: CompletionOptions) -> None:
    """Print the script that completes verbs, options and their values in SHELL."""
    found = get_completion_class(options.shell)
    assert found is not None
    script = found(click.Group(_NAME), {}, _NAME, COMPLETE)
    show(script.source_template % script.source_vars())


class _Verbs(click.Group):
    """Knows the verbs by name; loads only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"reconciler.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
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
    if COMPLETE in os.environ:
        return shell_complete(cli, {}, _NAME, COMPLETE, os.environ[COMPLETE])
    if not arguments:
        show(first_help())
        return ExitCode.DONE
    try:
        return int(cli.main(args=list(arguments), prog_name=program_name(), standalone_mode=False) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("error: interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place: a bug is one line too
        return report_failure(error, arguments)


# The program kubectl_complete-reconciler: kubectl calls it to complete `kubectl reconciler ...`.


_NO_FILES, _FILES, _FOLDERS = 4, 0, 16
_DIRECTIVES = {"plain": _NO_FILES, "file": _FILES, "dir": _FOLDERS}


def kubectl_complete() -> None:
    """Print what may stand in place of the last argument: a line for each, and what kind of paths else."""
    mend_streams()
    *before, begun = sys.argv[1:] or [""]
    items = ShellComplete(cli, {}, "kubectl reconciler", COMPLETE).get_completions(before, begun)
    show_rows(_as_cobra_reads(items))
    flush_streams()


def _as_cobra_reads(items: list[CompletionItem]) -> Iterator[Sequence[str]]:
    """Yield the value of each item, with its description where it has one, and last the number that tells what else."""
    for item in items:
        if item.type == "plain":
            yield (str(item.value), item.help) if item.help else (str(item.value),)
    directive = next((_DIRECTIVES[item.type] for item in items if item.type != "plain"), _NO_FILES)
    yield (f":{directive}",)
