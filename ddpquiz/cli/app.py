"""The command line: which commands there are, and the one place where errors are printed."""

from __future__ import annotations

import contextlib
import difflib
import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ddpquiz import __version__
from ddpquiz.cli import (
    check,
    demo,
    doctor,
    explain,
    export,
    home,
    import_,
    learn,
    list_,
    optimize,
    progress,
    prove,
    run,
    search,
    show,
    stats,
    study,
    test,
)
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

_OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer keeps its name to itself
_MEANT = {  # what other programs call it
    "quiz": "test",
    "question": "test",
    "questions": "test",
    "review": "study",
    "cards": "study",
    "tell": "explain",
    "backup": "export",
    "restore": "import",
    "statistics": "stats",
    "lesson": "learn",
    "read": "learn",
    "demos": "demo",
    "concepts": "list",
    "tracks": "list",
    "find": "search",
    "proof": "prove",
    "answer": "show",
    "help": "--help",
    "version": "--version",
}


class _Commands(TyperGroup):
    """The commands; a word that is none is answered with the one that may be meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if len(args) > 1 and args[0] in ("--install-completion", "--show-completion"):
            raise typer.BadParameter(
                f"it takes no value, and completes for the shell that it is called from; got {args[1]}",
                ctx,
                param_hint=args[0],
            )
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        meant = _MEANT.get(args[0])
        if meant:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)


class _Scripted(TyperCommand):
    """A command that hands on to a script what follows `--`, or what follows the first option that is not ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as wrong:
            at = next((at for at, word in enumerate(given) if _option(wrong) and _is(word, _option(wrong))), None)
            if at is None or not self._is_named(ctx, given[:at]):
                raise
            if near := difflib.get_close_matches(
                _option(wrong), [o for each in self.params for o in each.opts], 1, 0.8
            ):
                line = " ".join(["ddpquiz", str(ctx.info_name), *given[:at], "--", *given[at:]])
                ctx.fail(f"No such option: {given[at]}; {near[0]} is one. If it is the script's, say so: {line}")
            return super().parse_args(ctx, [*given[:at], "--", *given[at:]])

    def _is_named(self, ctx: Any, args: list[str]) -> bool:
        """Whether the script is among these arguments."""
        values, _, _ = self.make_parser(ctx).parse_args(list(args))
        return isinstance(values.get(next(str(each.name) for each in self.params if each.opts[0][0] != "-")), str)


def _is(word: str, option: str) -> bool:
    return word.partition("=")[0] == option or (option[:2] != "--" and word.startswith(option))


def _option(wrong: Exception) -> str:
    return str(getattr(wrong, "option_name", ""))


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
    epilog="Without a command: what is due, where you are strong and weak, and what to do next.",
)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Learn distributed training: recall cards, quizzes, and demos that run real ranks on this machine."""
    del version
    if context.invoked_subcommand is None:
        home.home()


_COMMANDS: dict[Callable[..., None], str] = {
    study.study: "Recall cards: those that are due, then new ones.",
    test.test: "Answer questions, and see why each wrong answer is wrong.",
    learn.learn: "Read the lesson of a concept.",
    explain.explain: "Explain a concept in your own words, and see which points you made.",
    demo.demo: "Run a demo on real ranks, live, or list the demos.",
    run.run: "Watch a script of your own on ranks of this machine.",
    prove.prove: "Run the proof behind an answer on real ranks.",
    list_.list_: "List the curriculum, or what one concept holds.",
    search.search: "Find concepts, cards and questions by their words.",
    show.show: "Show an item with its answer, steps, source and proof.",
    stats.stats: "Show what you recall, what comes due, and how strong you are.",
    optimize.optimize: "Fit the scheduler to your own reviews.",
    export.export: "Export your progress, or the cards for Anki.",
    import_.import_: "Add progress that was exported elsewhere.",
    check.check: "Validate content: every complaint at once.",
    doctor.doctor: "Look at what this machine can do.",
}
for _command, _does in _COMMANDS.items():
    _kind = _Scripted if _command in (demo.demo, run.run) else TyperCommand
    app.command(_command.__name__.rstrip("_"), cls=_kind, short_help=_does)(_command)
app.add_typer(progress.progress, name="progress", short_help="Restore a backup or hidden items; rebuild card states.")


def main() -> None:
    """Run a command, and end with its status: 0 done, 1 the user can mend it, 2 wrong usage, 130 interrupted."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed: it is as one at its end, or one that nobody reads
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # for as long as we run
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no `│` gets a `?`, and not a traceback
    status: object = 0
    try:
        app(prog_name="ddpquiz")
    except SystemExit as end:
        status = end.code
    except UserError as error:
        status = _print_error(str(error))
    except OSError as error:
        status = _drop_output(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:  # a reader that wants no more (`ddpquiz list | head`) is no failure
        _drop_output(error)
    except OSError as error:
        status = _drop_output(error)
    sys.exit(status)  # type: ignore[arg-type]  # as it came


def _print_error(sentence: str) -> int:
    """Print what the user can mend, after everything that was printed before; return the exit status."""
    from ddpquiz.terminal.kit.style import plain

    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(plain(sentence), file=sys.stderr)
    return 1


def _drop_output(error: OSError) -> int:
    """Report that standard output cannot be written, unless nobody reads it any more; raise any other fault."""
    is_broken_pipe = isinstance(error, BrokenPipeError)
    if not is_broken_pipe and (error.errno not in _OUTPUT_FAULTS or error.filename is not None):
        raise error
    with contextlib.suppress(OSError):  # a stream without a file needs no other one
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains once more at its end
    return 1 if is_broken_pipe else _print_error(f"Standard output cannot be written: {error.strerror}.")
