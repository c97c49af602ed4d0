"""The command line: which commands there are, and the one place where errors are printed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys

import typer

from ddpquiz import __version__
from ddpquiz.errors import UserError

app = typer.Typer(
    name="ddpquiz",
    pretty_exceptions_enable=False,  # a bug shows Python's own traceback
    rich_markup_mode=None,  # plain help starts twice as fast, and brackets in it are brackets
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog="Without a command: what is due, where you are strong and weak, and what to do next.",
)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Learn distributed training: recall cards, quizzes, and demos that run real ranks on this machine."""
    del version
    if context.invoked_subcommand is None:
        from ddpquiz.cli import home

        home.home()


_COMMANDS = ["study:study", "test:test", "learn:learn", "demo:demo", "run:run", "prove:prove"]
_COMMANDS += ["listing:list_", "search:search", "show:show", "check:check", "doctor:doctor"]
for _name in _COMMANDS:  # TODO: plain imports when all of them are there
    _module, _function = _name.split(":")
    if importlib.util.find_spec(f"ddpquiz.cli.{_module}"):
        app.command(_function.strip("_"))(getattr(importlib.import_module(f"ddpquiz.cli.{_module}"), _function))


def main() -> None:
    """Run a command, and end with its status: 0 done, 1 the user can mend it, 2 wrong usage, 130 interrupted."""
    try:
        app()
    except UserError as error:
        from ddpquiz.terminal.style import plain

        sys.stdout.flush()
        print(plain(str(error)), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    finally:
        _flush()


def _flush() -> None:
    """Let a reader that went away (`ddpquiz list | head`) be no complaint."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
