"""A frame of a run as data: everything that a terminal or a page draws of it, and nothing about how."""

import math
from dataclasses import dataclass

from ddpquiz.analysis.events import Output
from ddpquiz.analysis.frames.ending import (
    ClaimLine,
    Failure,
    ShownPath,
    claims_to_come,
    describe_claims,
    describe_failure,
    matters,
    result,
)
from ddpquiz.analysis.frames.operation_line import OperationLine, describe_current
from ddpquiz.analysis.frames.piece import Piece
from ddpquiz.analysis.frames.rank_values import LabelledValue, RankColumn, describe_label, describe_rank
from ddpquiz.analysis.frames.script_marks import elsewhere, marks
from ddpquiz.analysis.run_state import RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFrame:
    """What a run shows at one moment.

    `remarks` are restarts and notes, `lines` those that ranks printed without a label, `marks` stand beside lines of
    the script, and `elsewhere` says which ranks are in other files. `values` are by label and rank.
    """

    remarks: tuple[str, ...]
    columns: tuple[RankColumn, ...]
    values: dict[str, dict[int, LabelledValue]]
    lines: tuple[Output, ...]
    operation: OperationLine
    claims: tuple[ClaimLine, ...]
    claims_to_come: str
    marks: dict[int, str]
    elsewhere: tuple[str, ...]
    failure: Failure | None
    result: tuple[Piece, ...]


def describe_frame(state: RunState, since: float, path: ShownPath = str) -> RunFrame:
    """Return what a run shows at the time of its last event.

    Values that came after `since` are new; at the end of a run none are, since the last frame is of the whole run.
    """
    since = math.inf if state.end else since
    return RunFrame(
        remarks=remarks(state),
        columns=tuple(describe_rank(state, rank) for rank in state.all_ranks),
        values={label: describe_label(state, label, since) for label in state.rows},
        lines=tuple(line for line in state.lines if matters(line, state)),
        operation=describe_current(state, state.time, newest=True),
        claims=tuple(describe_claims(state)),
        claims_to_come=claims_to_come(state),
        marks=marks(state),
        elsewhere=tuple(f"rank {rank} is in {path(file)}:{line}" for rank, file, line in elsewhere(state)),
        failure=describe_failure(state, path),
        result=result(state),
    )


def remarks(state: RunState) -> tuple[str, ...]:
    """Return how often the ranks were restarted, and the notes of a run."""
    return (*([restarts(state)] if state.restart else []), *state.notes)


def restarts(state: RunState) -> str:
    """Return how often the ranks were restarted, and in which processes they run now."""
    processes = " ".join(str(pid) for _, pid in sorted(state.pids.items()))
    of = f" of {state.began.restarts}" if state.began else ""
    return f"restart {state.restart}{of} · now processes {processes}"
