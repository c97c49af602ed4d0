"""What a run is: its title, what its ranks run on, nodes and restarts, and the same run as a torchrun command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from ddpquiz.ranks.machines.jobs import JobFile
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import plain, prose

_MARKS = {"✓": "good", "✗": "bad"}  # at the start of a prediction

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpquiz.analysis.events import Began, Nodes
    from ddpquiz.analysis.run_state import RunState


def top(state: RunState, look: str) -> list[RenderableType]:
    """Draw the lines above everything else; `look` says what to look at, and on a second line what was predicted."""
    hint, _, prediction = look.partition("\n")
    parts: list[RenderableType] = [header(state)]
    parts += [Text.assemble(("look at  ", "quiet"), prose(hint))] if hint else []
    parts += [prose(prediction, _MARKS.get(prediction[0], ""))] if prediction else []
    parts += _nodes_and_restarts(state)
    return [*parts, *(Text(plain(note), style="warn") for note in state.notes)]


def header(state: RunState) -> Text:
    """Draw what the run is, what runs on what, and why there."""
    if state.began is None:
        return Text("Loading torch ...", style="accent")
    title = plain(state.began.title) + "\n" if state.began.title else ""
    return Text.assemble((title, "head"), (plain(state.began.reason), "accent"))


def nodes_joined(nodes: Nodes) -> str:
    """Return how many nodes have joined, as a sentence without its full stop."""
    waiting = "; waiting for the others" if nodes.joined < nodes.needed else ""
    return f"{nodes.joined} of {nodes.needed} nodes joined{waiting}"


def torchrun(began: Began) -> str:
    """Return the command line that runs the same without ddpquiz."""
    here = len(began.here) or began.ranks
    script, nodes = Path(shown_path(began.script)), began.ranks // here
    job = JobFile(script, began.args, here, nodes, restarts=began.restarts, module=began.module)
    return job.command('"$HEAD:29400"' if job.nodes > 1 else "")


def _nodes_and_restarts(state: RunState) -> list[Text]:
    parts = []
    if state.nodes:
        missing = state.nodes.joined < state.nodes.needed
        parts.append(Text(nodes_joined(state.nodes), style="warn" if missing else "quiet"))
    if state.restart:
        processes = " ".join(str(pid) for _, pid in sorted(state.pids.items()))
        of = f" of {state.began.restarts}" if state.began else ""
        restarts = f"restart {state.restart}{of} · now processes {processes}"
        parts.append(Text(restarts, style="warn", no_wrap=True, overflow="ellipsis"))
    return parts
