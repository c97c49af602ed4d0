"""What `demo` and `run` share: how a run is asked for, followed and kept, and the status that it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ddpquiz.cli.prediction import Prediction
    from ddpquiz.ranks.events import Event
    from ddpquiz.ranks.run import Run
    from ddpquiz.ranks.seen import Seen

Args = Annotated[list[str] | None, typer.Argument(help="After --: what the script is given.")]
Nproc = Annotated[int | None, typer.Option("--nproc", "-n", help="Ranks to start. [default: one per GPU, or 4]")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds without any movement that count as a hang.")]
Plain = Annotated[bool, typer.Option("--plain", help="Plain lines instead of a live view.")]
Json = Annotated[bool, typer.Option("--json", help="One event a line, as JSON, and nothing else.")]
Save = Annotated[Path | None, typer.Option(help="Keep the run's events in this file.")]


@dataclass(frozen=True)
class Options:
    """How a run is wanted: what its command line said, or what a concept's link says."""

    ranks: int | None = None
    device: str = "auto"
    timeout: float | None = None  # seconds without any movement that count as a hang; None: never
    plain: bool = False
    json: bool = False
    save: Path | None = None

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cpu", "cuda"):
            raise typer.BadParameter(f"{self.device!r} is none of auto, cpu, cuda.", param_hint="--device")


def follow(script: Path, args: tuple[str, ...], options: Options, look: str = "") -> Seen:
    """Run a script on ranks and show it as asked."""
    from ddpquiz.ranks import launch

    launch.server()
    from ddpquiz.ranks import recording
    from ddpquiz.ranks.run import Run, read_script
    from ddpquiz.terminal import screen, style, watch

    launch.warm_for(read_script(script))
    kept: list[Event] = []

    def start() -> Run:
        kept.clear()
        run = Run(launch.Request(script, args, options.ranks, options.device, options.timeout))
        run.listeners.append(kept.append)
        return run

    if options.json:
        seen = watch.json_lines(start())
    elif options.plain or not screen.is_interactive():
        seen = watch.lines(start(), style.console())
    else:
        seen = watch.live(start, style.console(), look=look)
    if options.save:
        recording.save(kept, options.save)
    return seen


def end_as(seen: Seen, prediction: Prediction | None = None) -> None:
    """Say whether a prediction held, and end with the status of the run."""
    if prediction is not None:
        from ddpquiz.cli.prediction import settle
        from ddpquiz.terminal import style

        settle(prediction, seen, style.console())
    if seen.end and not seen.end.ok:
        from ddpquiz.terminal.watch import INTERRUPTED

        raise typer.Exit(130 if seen.end.why == INTERRUPTED else 1)
