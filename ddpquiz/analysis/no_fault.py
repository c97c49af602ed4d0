"""The verdict on a job whose communication shows no fault, or that has not communicated so far."""

from collections import defaultdict
from collections.abc import Collection

from ddpquiz.analysis.formatting import format_ranks, plural
from ddpquiz.analysis.group_verdict import unlike_groups
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.verdict import NEXT, Diagnosis, Standpoint

_AGAIN = (
    "If the job has just begun, diagnose it again in a moment: ranks import libraries and load data before they "
    "communicate. `ddpquiz watch` follows a job while it runs."
)


def no_fault(state: RunState, absent: Collection[int]) -> Diagnosis:
    """Return that all calls fit together, as far as they are known."""
    count = state.timeline.count
    limits: tuple[str, ...] = (f"Nothing is known of {format_ranks(sorted(absent))}.",) if absent else ()
    if unlike := unlike_groups(state):
        limits += (f"{unlike.sentence} That did no harm this time. {unlike.next}",)
    if count:
        sentence = f"The calls of all ranks fit together, in {plural(count, 'recorded operation')}."
        return Diagnosis("none", (), sentence, next=NEXT["none"], limits=limits)
    if running := _still_running(state):
        sentence = "The ranks have recorded no communication so far."
        return Diagnosis("none", (), sentence, running, next=_AGAIN, limits=limits)
    return Diagnosis("none", (), "The ranks recorded no communication.", next=NEXT["none"], limits=limits)


def _still_running(state: RunState) -> tuple[Standpoint, ...]:
    """Return where ranks that have not ended were last seen."""
    places = defaultdict[tuple[str, int], list[int]](list)
    for rank in sorted(state.pids.keys() - state.finished - state.exited.keys()):
        places[state.places.get(rank, ("", 0))].append(rank)
    return tuple(
        Standpoint(tuple(ranks), "last seen" if place[1] else "nothing recorded yet", *place)
        for place, ranks in places.items()
    )
