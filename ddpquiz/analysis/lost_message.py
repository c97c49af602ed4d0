"""A message that does not arrive: its other half was never called, or was called with another tag."""

from collections.abc import Mapping

from ddpquiz.analysis.call_order import CallOrder
from ddpquiz.analysis.call_text import call_at
from ddpquiz.analysis.collective import Call, Collective
from ddpquiz.analysis.formatting import format_place
from ddpquiz.analysis.mismatch_verdict import standpoint
from ddpquiz.analysis.operation import POINT_TO_POINT, Operation
from ddpquiz.analysis.verdict import MESSAGES, TAGS, Diagnosis


def lost_message(waits: Mapping[int, Collective], order: CallOrder) -> Diagnosis | None:
    """Return why a message does not arrive; `waits` says in which operation each rank waits for others."""
    for rank, pair in waits.items():
        operation, peer = pair.calls[rank].operation, pair.awaited[0]
        if operation.op not in POINT_TO_POINT or peer not in waits:
            continue
        other = waits[peer].calls[peer].operation
        if other.op not in POINT_TO_POINT:
            return _of_other_half(rank, pair, peer, waits[peer].calls[peer], order)
        if other.peer == rank and {operation.op, other.op} == {*POINT_TO_POINT} and operation.tag != other.tag:
            return _of_tags({rank: operation, peer: other}, pair)
    return None


def _of_other_half(rank: int, pair: Collective, peer: int, instead: Call, order: CallOrder) -> Diagnosis:
    """Return that a rank waits in a send or receive, and its peer went on to a collective.

    The peer left out its half, unless this rank never made such a step before and the peer did.
    """
    call = pair.calls[rank]
    standpoints = (standpoint((rank,), call.operation), standpoint((peer,), instead.operation))
    is_usual = order.place_follows(call.operation, call.after) > 1
    if order.place_follows(instead.operation, instead.after) > 1 and not is_usual:
        sentence = f"Only rank {rank} called {call_at(call.operation)}; rank {peer}, which it waits for, is in "
        return Diagnosis(
            "missing", (rank,), f"{sentence}{call_at(instead.operation)}.", standpoints, pair.group, pair.members,
            pair.index, next=MESSAGES,
        )  # fmt: skip
    half = (
        "a message that rank {} did not send" if call.operation.op == "recv" else "a receive that rank {} did not call"
    )
    return Diagnosis(
        "missing", (peer,),
        f"Rank {rank} waits in {call_at(call.operation)} for {half.format(peer)}: rank {peer} went on to "
        f"{call_at(instead.operation)}.",
        standpoints, pair.group, pair.members, pair.index, next=MESSAGES,
        limits=() if is_usual else (f"Rank {rank} may also have called {call.operation.op} once too often.",),
    )  # fmt: skip


def _of_tags(calls: dict[int, Operation], pair: Collective) -> Diagnosis:
    sent, received = sorted(calls, key=lambda rank: calls[rank].op == "recv")
    sentence = (
        f"Rank {sent} sends with tag {_tag_at(calls[sent])}, but rank {received} receives with tag "
        f"{_tag_at(calls[received])}."
    )
    return Diagnosis(
        "signature", tuple(sorted(calls)), sentence,
        tuple(standpoint((rank,), each) for rank, each in sorted(calls.items())), pair.group, pair.members, pair.index,
        next=TAGS, limits=("Nothing in the record tells which of the two is right.",),
    )  # fmt: skip


def _tag_at(operation: Operation) -> str:
    return (
        f"{operation.tag} at {format_place(operation.file, operation.line)}" if operation.line else f"{operation.tag}"
    )
