"""What `demo` and `run` share: how a run is asked for, followed and kept, and the status that it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddpquiz.cli import saving
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.cli.prediction import PredictedRun
    from ddpquiz.ranks.machines.cluster import Cluster
    from ddpquiz.ranks.run import Run

Args = Annotated[list[str] | None, typer.Argument(help="After --: what the script is given.")]
Nproc = Annotated[int | None, typer.Option("--nproc", "-n", help="Ranks to start. [default: one per GPU, or 4]")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds without any movement that count as a hang.")]
Plain = Annotated[bool, typer.Option("--plain", help="Plain lines instead of a live view.")]
Json = Annotated[bool, typer.Option("--json", help="One event a line, as JSON, and nothing else.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a script that asks for NCCL where there is none.")]
Step = Annotated[
    bool, typer.Option("--step", help="Open the run at its first operation once it has ended, to step through it.")
]
Save = Annotated[
    Path | None,
    typer.Option(help="Keep the run: .json (events), .trace.json (for Perfetto), .svg or .html (pictures)."),
]
Summary = Annotated[bool, typer.Option("--summary", help="Say at the end where time and bytes went, and what to do.")]


@dataclass(frozen=True)
class Options:
    """How a run is wanted: what its command line said, or what a concept's link says."""

    ranks: int | None = None
    device: str = "auto"
    timeout: float | None = None  # seconds without any movement that count as a hang; None: never
    plain: bool = False
    json: bool = False
    save: Path | None = None
    cluster: Cluster | None = None  # under torchrun's agent, for several machines or restarts
    module: str = ""  # the script's name for `python -m`, if it is run in that way
    strict: bool = False  # refuse a script that asks for NCCL where there is none
    summary: bool = False
    step: bool = False  # open the run at its first operation once it has ended

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cpu", "cuda"):
            raise typer.BadParameter(f"{self.device!r} is none of auto, cpu, cuda.", param_hint="--device")
        if self.timeout is not None and not self.timeout > 0:  # nor is nan
            raise typer.BadParameter(
                f"{self.timeout:g} s are over at once; it must be more than 0.", param_hint="--timeout"
            )
        if self.save:
            saving.format_of(self.save)


def follow(script: Path, args: tuple[str, ...], options: Options, look: str = "", found: str = "") -> RunState:
    """Run a script on ranks and show it as asked."""
    from ddpquiz.ranks import launch

    launch.server()
    from ddpquiz.ranks import script as reading
    from ddpquiz.ranks.machines.elastic import begin
    from ddpquiz.ranks.request import Request
    from ddpquiz.terminal.kit import screen, style
    from ddpquiz.terminal.runs import watch

    launch.warm_for(reading.read(script).source)
    kept = saving.Saving(options.save) if options.save else None

    def start() -> Run:
        if kept:
            kept.begin()
        request = Request(
            script,
            args=args,
            ranks=options.ranks,
            device=options.device,
            timeout=options.timeout,
            module=options.module,
            cluster=options.cluster,
            strict=options.strict,
        )
        run = begin(request)
        if kept:
            run.listeners.append(kept.add)
        return run

    if options.step and (options.json or options.plain or not screen.is_interactive()):
        raise UserError("--step needs a terminal, and neither --plain nor --json.")
    if options.json:
        seen = watch.json_lines(start())
    elif options.plain or not screen.is_interactive():
        seen = watch.lines(start(), style.console())
    else:
        seen = watch.live(start, style.console(), look=look, found=found, step=options.step)
    if kept:
        kept.finish(seen)
    if options.summary:
        tell_summary(seen, json=options.json)
    return seen


def tell_summary(seen: RunState, *, json: bool) -> None:
    """Print what a run has cost, and what could be better; as JSON in one line."""
    from ddpquiz.analysis.run_summary import summarize

    account = summarize(seen.timeline, seen.time)
    if json:
        from json import dumps

        typer.echo(dumps(account.as_json(), ensure_ascii=False))
    else:
        from ddpquiz.terminal.kit import layout, style
        from ddpquiz.terminal.runs import summary

        layout.show(style.console(), summary.summary(account))


def end_as(seen: RunState, prediction: PredictedRun | None = None) -> None:
    """Say whether a prediction held, and end with the status of the run."""
    if prediction is not None:
        from ddpquiz.cli.prediction import settle
        from ddpquiz.terminal.kit import style

        settle(prediction, seen, style.console())
    if seen.end and not seen.end.ok:
        from ddpquiz.terminal.runs.watch import INTERRUPTED, TERMINATED

        raise typer.Exit({INTERRUPTED: 130, TERMINATED: 143}.get(seen.end.why, 1))
