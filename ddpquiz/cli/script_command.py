"""The two commands that pass arguments to a script, and their messages about an option in the wrong place."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from ddpquiz.cli import completion
from ddpquiz.cli.typer_options import UsageError


class RunCommand(TyperCommand):
    """A command whose options go before the script; everything after the script goes to the script."""

    allow_interspersed_args = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of ddpquiz, and remove a `--` between the script and its arguments."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except UsageError as wrong:
            advice = "Options of the script go after the script."
            if getattr(wrong, "option_name", "") == "--replay":
                advice = "`ddpquiz demo --replay FILE` replays a saved run."
            raise _unknown_option(self, ctx, wrong, advice) from None
        passed = list(ctx.params.get("args") or ())
        if passed[:1] == ["--"]:
            ctx.params["args"] = passed[1:]
        elif passed and not ctx.resilient_parsing:
            self._note_misplaced(words[: -len(passed) - 1], Path(ctx.params["script"]), passed)
        return rest

    def _note_misplaced(self, ours: Sequence[str], script: Path, passed: Sequence[str]) -> None:
        """Print a note if options of ddpquiz go to a script whose text does not mention them."""
        misplaced, theirs = split_options(self, passed)
        text = script.read_text("utf-8", errors="replace") if script.is_file() else ""
        if any(word[0] == "-" and word.partition("=")[0].lstrip("-") not in text for word in misplaced):
            line = shlex.join(["ddpquiz", "run", *ours, *misplaced, str(script), *theirs])
            typer.echo(f"Note: {script} receives {shlex.join(misplaced)}. If ddpquiz should: {line}", err=True)


class DemoCommand(TyperCommand):
    """A command whose options go anywhere before `--`; everything after `--` goes to the demo."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of ddpquiz; UsageError that shows the right command for an option of the demo."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except UsageError as wrong:
            line = self._corrected(words)
            advice = f"Options of the demo go after --{f': `{line}`' if line else '.'}"
            raise _unknown_option(self, ctx, wrong, advice) from None

    def _corrected(self, words: list[str]) -> str:
        """Return the command line with every option on the right side of `--`, or "" if it names no demo."""
        at = words.index("--") if "--" in words else len(words)
        ours, theirs = split_options(self, words[:at])
        name = next((word for word in theirs if word in completion.demos("")), "")
        theirs = [word for word in theirs if word != name]
        return name and shlex.join(["ddpquiz", "demo", name, *ours, "--", *theirs, *words[at + 1 :]])


def _unknown_option(command: Any, ctx: Any, wrong: Any, advice: str) -> Any:
    """Return an error with advice if the error is about an unknown option; else the error itself."""
    option = getattr(wrong, "option_name", None)
    if option is None or option in _options(command):
        return wrong
    return UsageError(f"No such option: {option}. {advice}", ctx)


def split_options(command: Any, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return those of the words that are options of a command, with their values, and the other words."""
    options = _options(command)
    ours: list[str] = []
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name not in options:
            others.append(word)
            continue
        ours.append(word)
        if word == name and not options[name].is_flag:
            ours += [value for value in [next(rest, None)] if value is not None]
    return ours, others


def _options(command: Any) -> dict[str, Any]:
    return {name: each for each in command.params for name in (*each.opts, *each.secondary_opts) if name[0] == "-"}
