"""What is said of a run in which nothing moves: while it goes on, and when the user ends it there."""

from collections.abc import Collection

from ddpquiz.analysis.diagnosis import diagnose
from ddpquiz.analysis.events import Note, RankPosition
from ddpquiz.analysis.formatting import format_place
from ddpquiz.analysis.root_cause import Cause
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.verdict import Diagnosis


def note_standstill(state: RunState, now: float, since: float, positions: Collection[RankPosition]) -> Note:
    """Return who waits for whom in a run that may still go on; `since` is when something moved last."""
    verdict = diagnose(state, now=now, positions=positions)
    still = f"No operation and no line of output for {now - since:.0f} s."
    return Note(now, (*verdict.culprits, 0)[0], f"{still} {_standing(verdict, positions)}")


def cause_of_stop(why: str, state: RunState, positions: Collection[RankPosition]) -> Cause:
    """Return why the user's run ended, and where its ranks stood if it did not move, with what to do about that."""
    if not positions:
        return Cause(why=why)
    verdict = diagnose(state, positions=positions)
    advice = f"\n{verdict.next}" if verdict.fault != "none" else ""
    return Cause(why=why, mend=_standing(verdict, positions) + advice)


def _standing(verdict: Diagnosis, positions: Collection[RankPosition]) -> str:
    """Return what is wrong, or else where each rank stands."""
    if verdict.fault != "none":
        return verdict.whole
    places = (f"rank {each.rank} at {format_place(each.file, each.line)}" for each in positions if each.line)
    return f"No rank waits for another one: {', '.join(places)}."
