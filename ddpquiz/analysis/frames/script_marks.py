"""Where the ranks are in the script, as a mark beside each line."""

from ddpquiz.analysis.formatting import list_ranks
from ddpquiz.analysis.run_state import RunState

INSIDE, LAST, GONE = "▶", "▷", "■"
LEGEND = f"{INSIDE} waits in this line · {LAST} was last seen here · {GONE} has ended"


def ranks_by_line(state: RunState) -> dict[int, list[int]]:
    """Return the ranks that were last seen in each line of the script."""
    at: dict[int, list[int]] = {}
    for rank in sorted(state.places):
        line = state.in_script(rank)
        if line is not None:
            at.setdefault(line, []).append(rank)
    return at


def elsewhere(state: RunState) -> list[tuple[int, str, int]]:
    """Return rank, file and line of those that were last seen outside the script."""
    return [
        (rank, file, line)
        for rank, (file, line) in sorted(state.places.items())
        if line and state.in_script(rank) is None
    ]


def marks(state: RunState) -> dict[int, str]:
    """Return the text that stands beside each line of the script in which ranks are."""
    return {line: _marks(ranks, state) for line, ranks in ranks_by_line(state).items()}


def _marks(ranks: list[int], state: RunState) -> str:
    kinds: dict[str, list[int]] = {}
    stuck = {each.rank for each in state.hung.ranks if each.waits_in} if state.hung else set()
    for rank in ranks:
        gone = rank in state.exited and not state.exited[rank].stopped
        kind = GONE if gone else INSIDE if state.blocked_in(rank) or rank in stuck else LAST
        kinds.setdefault(kind, []).append(rank)
    return " ".join(f"{kind} {list_ranks(kinds[kind])}" for kind in (INSIDE, LAST, GONE) if kind in kinds)
