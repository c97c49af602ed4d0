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
    sites = order.sites(collective.group, collective.members)
    ours, theirs = {*ranks}, {*others}
    before = [
        (operation, {*callers}, {r for r, at in callers.items() if at < collective.index})
        for operation, callers in sites
    ]
    own = [operation for operation, callers, early in before if early & ours and not callers & theirs]
    if not own or any(early & theirs and not callers & ours for _, callers, early in before):
        return None
    if any(opposite_branches(own[0], operation) for operation, callers, _ in before if callers & theirs):
        return None
    return own[0]
