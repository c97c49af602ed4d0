"""Which ranks do not go on, and what is known of the time for which they wait."""

from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.operation import POINT_TO_POINT, ROOTED
from ddpquiz.analysis.run_state import RunState


def find_blocked(state: RunState) -> dict[int, Collective]:
    """Return in which operation each rank is that does not go on, as far as the record shows."""
    blocked: dict[int, Collective] = {}
    for collective in state.timeline.unfinished:
        for rank in collective.arrived:
            call = collective.calls[rank]
            is_open = call.ended is None or call.failed
            waits = not call.operation.in_background or call.failed or call.blocks_script or state.blocked_in(rank)
            if is_open and waits:
                blocked.setdefault(rank, collective)
    return blocked


def has_gone_on(rank: int, state: RunState) -> bool:
    """Return True if a rank has surely left its last operation: another one went on from there that all had to enter.

    The root of a broadcast may have failed there, because of a rank of which nothing is known.
    """
    last = state.brought.get(rank)
    if last is None or last.operation.op in (*ROOTED, *POINT_TO_POINT):
        return False
    for each in state.timeline.unfinished:
        if rank in each.calls and each.calls[rank].number == last.number:
            others = {other: call for other, call in each.calls.items() if other != rank and not call.failed}
            return any(state.brought[other].number > call.number for other, call in others.items())
    return False  # it was an operation of other ranks, as far as is known


def is_long(collective: Collective, state: RunState, now: float) -> bool:
    """Return True if ranks wait much longer than operations usually take, so that they do not just meet later."""
    since = max(call.issued for call in collective.calls.values())
    usual = max((each.started - min(c.issued for c in each.calls.values())
                 for each in state.timeline.collectives if each.started is not None), default=0.0)  # fmt: skip
    return now - since > max(1.0, 2 * usual) or any(call.failed for call in collective.calls.values())
