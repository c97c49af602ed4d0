"""The options that `demo` and `run` share, as one dataclass, and what is said of one in the wrong place."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ddpquiz.cli import completion
from ddpquiz.cli.output import say
from ddpquiz.cli.typer_options import UsageError
from ddpquiz.errors import UserError
from ddpquiz.ranks.request import Request


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is started and shown. BadParameter if a value is invalid."""

    nproc: Annotated[
        int | None, typer.Option("--nproc", "-n", help="How many ranks to start. [default: one per GPU, or 4]")
    ] = None
    device: Annotated[str, typer.Option(help="Where the ranks run: auto, cpu or cuda.")] = "auto"
    timeout: Annotated[
        float | None,
        typer.Option(help="End the run, and report it as hung, after this many seconds without progress."),
    ] = None
    plain: Annotated[bool, typer.Option("--plain", help="Print plain lines instead of a live view.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print one event per line as JSON, and nothing else.")] = False
    step: Annotated[bool, typer.Option("--step", help="After the run, step through it from its first operation.")] = (
        False
    )
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Stop if a script asks for NCCL and it cannot run here, instead of using Gloo."),
    ] = False
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save the run: .html (interactive page), .json (events), .trace.json (Perfetto), .svg (picture)."
        ),
    ] = None
    summary: Annotated[
        bool, typer.Option("--summary", help="Print where the time and the bytes went, and what could be improved.")
    ] = False
    check_replicas: Annotated[
        bool,
        typer.Option("--check-replicas", help="Say when the replicas of a DDP model no longer hold equal weights."),
    ] = False
    stay: Annotated[
        bool | None,
        typer.Option(
            "--stay/--no-stay",
            show_default=False,
            help="In a terminal, keep the last page of the run open until you press a key. [default: `run` does; "
            "`demo` does if the page does not fit on the screen]",
        ),
    ] = None
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Start each rank in its own Python, as torchrun does, so that the order of a set differs between "
            "ranks. `run` does so by itself if the script iterates over a set.",
        ),
    ] = False
    max_restarts: Annotated[int, typer.Option(help="How many times failed ranks are restarted.")] = 0
    emit: Annotated[str | None, typer.Option(help="Run nothing; print a job for torchrun, slurm or kubernetes.")] = None
    nnodes: Annotated[int, typer.Option(help="With --emit: the number of machines.")] = 1

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cpu", "cuda"):
            raise typer.BadParameter(f"{self.device!r} is not one of auto, cpu, cuda.", param_hint="--device")
        if self.timeout is not None and not self.timeout > 0:  # also refuses nan
            raise typer.BadParameter(f"{self.timeout:g} is not a positive number of seconds.", param_hint="--timeout")
        if self.max_restarts < 0:
            raise typer.BadParameter(f"{self.max_restarts} is not a number of restarts.", param_hint="--max-restarts")
        if self.fresh and self.max_restarts:
            raise typer.BadParameter("not possible with --max-restarts, which forks ranks.", param_hint="--fresh")
        if self.nnodes < 1:
            raise typer.BadParameter(f"{self.nnodes} is not a number of machines.", param_hint="--nnodes")
        if self.nnodes > 1 and self.emit is None:
            raise typer.BadParameter(
                "ddpquiz starts ranks on this machine only. To start and record a job on several machines, add --emit "
                "torchrun, slurm or kubernetes.",
                param_hint="--nnodes",
            )
        if self.save:
            from ddpquiz.cli import saving  # noqa: PLC0415  # the list of demos and the help save nothing

            saving.format_of(self.save)

    def request(self, script: Path, args: tuple[str, ...], module: str = "") -> Request:
        """The request for a run of this script."""
        return Request(
            script, args=args, ranks=self.nproc, device=self.device,
            timeout=self.timeout, module=module, restarts=self.max_restarts, strict=self.strict,
            check_replicas=self.check_replicas, fresh=self.fresh,
        )  # fmt: skip


# The two commands that pass arguments to a script, and their messages about an option in the wrong place.


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
            ctx.obj = self._note_misplaced(words[: -len(passed) - 1], Path(ctx.params["script"]), passed)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with the note about misplaced options before it, and after it where a reader looks then."""
        note = ctx.obj or ""
        if note:
            say(note, err=True)
        try:
            return super().invoke(ctx)
        except UserError:
            note = ""  # nothing ran: the note stands right above
            raise
        finally:
            if note and ctx.params["emit"] is None:
                say(note, err=True)

    def _note_misplaced(self, ours: Sequence[str], script: Path, passed: Sequence[str]) -> str:
        """A note if options of ddpquiz go to a script whose text does not mention them, or ""."""
        misplaced, theirs = _split_options(self, passed)
        text = script.read_text("utf-8", errors="replace") if script.is_file() else ""
        if all(word[0] != "-" or _mentions(text, word) for word in misplaced):
            return ""
        line = shlex.join(["ddpquiz", "run", *ours, *misplaced, str(script), *theirs])
        return f"Note: {script} receives {shlex.join(misplaced)}. If that is meant for ddpquiz: {line}"


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
        """The command line with every option on the right side of `--`, or "" if it names no demo."""
        at = words.index("--") if "--" in words else len(words)
        ours, theirs = _split_options(self, words[:at])
        name = next((word for word in theirs if word in completion.demos("")), "")
        theirs = [word for word in theirs if word != name]
        return name and shlex.join(["ddpquiz", "demo", name, *ours, "--", *theirs, *words[at + 1 :]])


def _mentions(script: str, option: str) -> bool:
    """Whether the text of a script mentions an option: a long one also without its dashes, as a parameter may be."""
    name = option.partition("=")[0]
    if not name.startswith("--"):
        return re.search(rf"[\"']{re.escape(name[:2])}\b", script) is not None
    return name[2:] in script or name[2:].replace("-", "_") in script


def _unknown_option(command: Any, ctx: Any, wrong: Any, advice: str) -> Any:
    """An error with advice if the error is about an unknown option; else the error itself."""
    option = getattr(wrong, "option_name", None)
    if option is None or option in _options(command):
        return wrong
    return UsageError(f"No such option: {option}. {advice}", ctx)


def _split_options(command: Any, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the words that are options of a command, with their values, and the other words."""
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
