"""A rank that asks for something else than its line always did, where the other ranks left no record."""

from collections.abc import Mapping

from ddpquiz.analysis.call_order import CallOrder
from ddpquiz.analysis.call_text import request, request_at
from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.formatting import format_ranks
from ddpquiz.analysis.mismatch import EQUAL_SHAPES
from ddpquiz.analysis.mismatch_verdict import standpoint
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.verdict import NEXT, Diagnosis, Standpoint


def changed_request(blocked: Mapping[int, Collective], absent: tuple[int, ...], order: CallOrder) -> Diagnosis | None:
    """Return that ranks changed the shape or dtype of a call in which they wait for ranks without a record.

    Gloo ends the ranks whose tensors have no room for what they receive, so those often leave nothing.
    """
    calls: dict[int, Operation] = {
        rank: each.calls[rank].operation for rank, each in blocked.items() if each.op.startswith(EQUAL_SHAPES)
    }
    changed = {rank: operation for rank, operation in calls.items() if order.usual_request(operation, len(calls))}
    if not changed or len({*changed.values()}) > 1:
        return None
    ranks, operation = tuple(sorted(changed)), next(iter(changed.values()))
    usual = order.usual_request(operation, len(calls)) or operation
    collective = blocked[ranks[0]]
    return Diagnosis(
        "signature", ranks,
        f"{format_ranks(ranks).capitalize()} called {request_at(operation)}; before, every call in that line was "
        f"{request(usual)}.",
        (standpoint(ranks, operation), Standpoint(absent, "left no record")),
        collective.group, collective.members, collective.index, next=NEXT["signature"],
        limits=(f"{format_ranks(absent).capitalize()} left no record; the cause may also be there.",),
    )  # fmt: skip
