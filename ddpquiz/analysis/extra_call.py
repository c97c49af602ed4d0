"""The line of a script that only some ranks of a group reached: an extra call, which shifts all later ones."""

from collections.abc import Collection

from ddpquiz.analysis.call_order import CallOrder
from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.ranks_at_fault import opposite_branches


def extra_call(
    collective: Collective, ranks: Collection[int], others: Collection[int], order: CallOrder
) -> Operation | None:
    """Return the first collective before this one in a line that some of `ranks` reached and none of `others`.

    Calls pair by their order, so such a call may have met another one of the others without an error, and the calls
    that do not match come later, in other lines. None if the others also reached a line of their own, or if the line
    stands in the opposite branch of one that they share: then both may belong together.
    """
    now = {call.operation.place for call in collective.calls.values()}  # those who are ahead reached it first
    sites = [site for site in order.sites(collective.group, collective.members) if site[0].place not in now]
    ours, theirs = {*ranks}, {*others}
    own = [operation for operation, callers in sites if callers & ours and not callers & theirs]
    if not own or any(callers & theirs and not callers & ours for _, callers in sites):
        return None
    if any(opposite_branches(own[0], operation) for operation, callers in sites if callers & theirs):
        return None
    return own[0]
