"""The command line: which commands there are, and the one place where errors are printed."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ddpquiz import __version__
from ddpquiz.cli.typer_options import CliCommand, UsageError
from ddpquiz.errors import UserError
from ddpquiz.safe_text import one_line, plain

_GLUE = "\ue000"  # stands for a blank at which no line ends
_OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_PLACE_FAULTS = (  # what may be wrong with a file or a folder, whatever is done there
    *_OUTPUT_FAULTS, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR,
    errno.EISDIR, errno.ESTALE,
)  # fmt: skip
_LONGEST_NAME = 200  # characters of a path in an error
_PANELS = {  # of the help; each sentence fits on its line at 80 columns
    "Learn": {
        "learn": "Learn a concept step by step; go on where you left off.",
        "study": "Review cards: first those that are due, then new ones.",
        "test": "Answer questions, and see why each wrong answer is wrong.",
        "explain": "Explain a concept in your own words, then see a model answer.",
        "demo": "Run a demo on real ranks, live, or list the demos.",
        "lab": "Write a distributed program; real ranks check each save.",
    },
    "Look up": {
        "list": "List the curriculum, or the items of one concept.",
        "search": "Search concepts, demos, labs, cards and questions.",
        "show": "Show a card or question with its answer, steps, source and proof.",
        "prove": "Run the proof behind an answer on real ranks.",
        "stats": "Show what you remember, what comes due, and what you know well.",
    },
    "Your jobs": {
        "run": "Run a script of your own on this machine, and watch its ranks.",
        "watch": "Watch a job live while ddpquiz.record records it.",
        "where": "Find the rank that is not where the others are waiting, right now.",
        "diagnose": "Find out why a job hangs or failed, from its logs or stacks.",
        "compare": "Compare two saved runs: what got slower or faster, what is new.",
        "plan": "Predict memory, traffic and time on GPUs that you do not have.",
        "bench": "Measure the collectives of this machine: time and bandwidth.",
    },
    "Your data": {
        "progress": "Restore a backup or hidden cards; recompute when cards are due.",
        "export": "Export your progress, or export the cards to Anki.",
        "import": "Add progress that was exported elsewhere.",
        "optimize": "Adapt the review schedule to how well you remember.",
    },
    "Content": {
        "check": "Check content files, and list every problem.",
        "pack": "Add concepts, demos and labs by others, or make a pack.",
        "site": "Write the curriculum as a static site.",
    },
    "This machine": {
        "doctor": "Check what this machine can do.",
    },
}
_BELOW = {"Your jobs": "`python -m ddpquiz.record` records a job that another launcher starts."}
_COMMANDS = {name: sentence for panel in _PANELS.values() for name, sentence in panel.items()}
_MEANT = {  # names of these commands in other programs
    "exam": "test --exam",
    "quiz": "test", "question": "test", "questions": "test", "review": "study", "cards": "study", "tell": "explain",
    "backup": "export", "restore": "import", "statistics": "stats", "lesson": "learn", "read": "learn", "demos": "demo",
    "labs": "lab", "build": "lab", "exercises": "lab",
    "concepts": "list", "tracks": "list", "find": "search", "proof": "prove", "answer": "show",
    "help": "--help", "version": "--version",
}  # fmt: skip
_WHERE_NAMED = {  # where a learner finds the value of an argument that is missing
    "concept": "`ddpquiz list` lists the concepts.",
    "item": "`ddpquiz list CONCEPT` lists the items of a concept.",
}


@cache
def _load(name: str) -> Any:
    """Import a command. KeyError if there is no such command."""
    short_help = _COMMANDS[name]
    plain = name + "_" * (name in {"list", "import"})  # words of Python itself
    module = importlib.import_module(f"ddpquiz.cli.{plain}")
    found = getattr(module, plain)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        single.command(name, cls=getattr(module, "COMMAND_CLASS", CliCommand), short_help=short_help)(found)
        return typer.main.get_command(single)
    command = typer.main.get_command(found)
    command.name, command.short_help = name, short_help
    return command


class _LazyCommands(Mapping[str, Any]):
    """The commands by name. A module is imported when its command is looked up: each start needs only one."""

    def __getitem__(self, name: str) -> Any:
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Commands(TyperGroup):
    """The group of all commands. The error for an unknown name suggests the command that is probably meant."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _LazyCommands()  # type: ignore[assignment]  # nothing is added to it later

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        width = max(map(len, _COMMANDS))
        for title, commands in _PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), sentence) for name, sentence in commands.items()])
                if title in _BELOW:
                    formatter.write_text(_BELOW[title])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        lazy = self.commands
        self.commands = {name: TyperCommand(name, short_help=text) for name, text in _COMMANDS.items()}
        try:
            return super().shell_complete(ctx, incomplete)  # imports none of them to list them
        finally:
            self.commands = lazy

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if len(args) > 1 and args[0] in ("--install-completion", "--show-completion"):
            raise typer.BadParameter(
                f"it takes no value: completion is installed for the shell that runs this command; got {args[1]}",
                ctx,
                param_hint=args[0],
            )
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        meant = _MEANT.get(args[0])
        if meant:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        if args[0] == "record":
            job = "torchrun --nproc-per-node 4 -m ddpquiz.record --to DIR train.py"
            ctx.fail(f"The recorder is started by the launcher of your job: `{job}`")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            if isinstance(error, typer.BadParameter) and not error.message and error.param:
                error.message = _WHERE_NAMED.get(error.param.name or "", "")
            text = _wrapped(plain(f"Error: {error.format_message()}")).removeprefix("Error: ")
            error.format_message = lambda: text
            raise

    def make_context(self, *args: Any, **more: Any) -> Any:
        try:
            return super().make_context(*args, **more)
        except UsageError as error:  # of the words before the command
            text = plain(error.format_message())
            error.format_message = lambda: text
            raise


app = typer.Typer(
    cls=_Commands,
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
    epilog="Without a command, ddpquiz shows what is due, where you are strong and weak, and what to do next.",
)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Learn distributed training: recall cards, quizzes, and demos that run real ranks on this machine."""
    del version
    if context.invoked_subcommand is None:
        from ddpquiz.cli import home  # noqa: PLC0415  # other commands do not need it

        home.home()


def main() -> None:
    """Run a command and exit: 0 success, 1 a problem that the user can fix, 2 wrong usage, 130 interrupted."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the process was started with it closed: use an empty file
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # for as long as we run
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show `│` shows `?`
    status: object = 0
    try:
        app(prog_name="ddpquiz")
    except SystemExit as end:
        status = end.code
    except UserError as error:
        status = _print_error(str(error))
    except (OSError, ImportError, RuntimeError) as error:
        status = _report_fault(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:  # a reader that stops early (`ddpquiz list | head`) is not an error
        _drop_output(error)
    except OSError as error:
        status = _drop_output(error)
    sys.exit(status)  # type: ignore[arg-type]  # whatever type SystemExit has


def _print_error(sentence: str) -> int:
    """Print an error that the user can fix, after all earlier output; return the exit status."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(_wrapped(plain(sentence)), file=sys.stderr)
    return 1


def _wrapped(text: str) -> str:
    """Break lines at words if standard error is a terminal; what stands in backticks stays whole, to be copied."""
    if not sys.stderr.isatty():
        return text
    width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    whole = re.sub(r"`[^`\n]*`", lambda found: found[0].replace(" ", _GLUE), text)
    lines = (
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""] for line in whole.split("\n")
    )
    return "\n".join(part for line in lines for part in line).replace(_GLUE, " ")


def _drop_output(error: OSError) -> int:
    """Report that standard output cannot be written, unless its reader is gone; raise any other error."""
    is_broken_pipe = isinstance(error, BrokenPipeError)
    if not is_broken_pipe and (error.errno not in _OUTPUT_FAULTS or error.filename is not None):
        raise error
    with contextlib.suppress(OSError):  # a stream without a file descriptor needs no replacement
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # otherwise Python prints another error when it exits
    return 1 if is_broken_pipe else _print_error(f"Standard output cannot be written: {error.strerror}.")


def _report_fault(error: OSError | ImportError | RuntimeError) -> int:
    """Report what is wrong around us, wherever it was noticed; raise what is a bug. Return the exit status."""
    match error:
        case OSError(filename=str() | os.PathLike() as place) if error.errno in _PLACE_FAULTS:
            name = one_line(str(place))
            shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 20]}…{name[-20:]}"
            return _print_error(f"{shown} cannot be used ({error.strerror}); fix that, or choose another location.")
        case FileNotFoundError(filename=None) if "temporary directory" in str(error):  # of tempfile, which tries them
            return _print_error("Temporary files cannot be written; is the disk full? Set TMPDIR to another folder.")
        case OSError():
            return _drop_output(error)
        case ImportError(name=str() as module) if module.startswith("ddpquiz."):
            return _print_error(f"ddpquiz was upgraded or removed while it ran ({module} is missing); start it again.")
        case RuntimeError() if "home directory" in str(error):  # pathlib has no class for it
            return _print_error("Your home folder cannot be found; set HOME to a folder.")
    raise error
