"""The line of code that made the other ranks of a run wait the longest, if one stands out."""

from collections import defaultdict
from dataclasses import dataclass

from ddpquiz.analysis.delay_costs import DelayCosts, Place, Stretch
from ddpquiz.analysis.formatting import format_place, format_ranks, format_seconds
from ddpquiz.analysis.timeline import Timeline

WORTH = 0.1  # of the other ranks' time that the line of one rank must cost
ONE_RANK = 0.6  # of a line's cost, which makes that rank the one to name
IN_TURN = 0.25  # of the ranks' time that a line must cost where it delays them in turn
LEAST, ONCE = 0.1, 0.25  # seconds that a line must cost, and if it was late only now and then
OFTEN = 5  # times


@dataclass(frozen=True, slots=True)
class CostliestLine:
    """A line, and the seconds for which it made the other ranks wait.

    `rank` is the one that was there longer than the others; None if several were in turn. `before` is the call that
    follows where the line itself was not seen; then `line` is that of the call. `share` is of the others' time.
    """

    file: str
    line: int
    rank: int | None
    seconds: float
    share: float
    before: str = ""

    def __str__(self) -> str:
        place = format_place(self.file, self.line) if self.line else self.before
        what = f"The computing before {place}" if self.before else place
        if self.before and self.line:
            what += f" ({self.before})"
        cost = f"{format_seconds(self.seconds)} in all, {self.share:.0%} of their time"
        if self.rank is None:
            return f"{what} cost the ranks most: in turn, they waited for each other there, {cost}."
        return (
            f"{what} cost the other ranks most: they waited for {format_ranks([self.rank])}, which spent longer there "
            f"than they did, {cost}."
        )


def find_costliest_line(timeline: Timeline, now: float) -> CostliestLine | None:
    """Return the line that cost the other ranks most; None if no line stands out, or the run failed."""
    lifetimes = {rank: totals.lifetime for rank, totals in timeline.totals(now).items()}
    costs = _by_line(timeline.delays)
    if timeline.failed or not costs:
        return None
    line, by_rank = max(costs.items(), key=lambda item: sum(cost for cost, _ in item[1].values()))
    whole = sum(cost for cost, _ in by_rank.values())
    rank, (most, times) = max(by_rank.items(), key=lambda item: item[1][0])
    (file, number), before = line
    others = sum(lifetimes.values()) - lifetimes.get(rank, 0.0)
    if most >= ONE_RANK * whole:
        least = LEAST if times >= OFTEN else ONCE
        if others and most >= max(least, WORTH * others):
            return CostliestLine(file, number, rank, most, most / others, before)
    elif whole >= max(LEAST, IN_TURN * sum(lifetimes.values())):
        return CostliestLine(file, number, None, whole, whole / sum(lifetimes.values()), before)
    return None


_Line = tuple[Place, str]  # and the call that follows, if the line was not seen


def _by_line(delays: DelayCosts) -> dict[_Line, dict[int, tuple[float, int]]]:
    """Return the seconds and times for which each rank made others wait at each line."""
    found: defaultdict[_Line, dict[int, tuple[float, int]]] = defaultdict(dict)
    ranks = {stretch.rank for stretch in delays.visited}
    for stretch, cost in delays.seconds.items():
        for line, share in _lines(delays, stretch, ranks).items():
            before, times = found[line].get(stretch.rank, (0.0, 0))
            found[line][stretch.rank] = before + cost * share, times + delays.times[stretch]
    return found


def _lines(delays: DelayCosts, stretch: Stretch, ranks: set[int]) -> dict[_Line, float]:
    """Return the lines at which a rank spent longer in a stretch than the others did, with their shares."""
    mine = delays.visited[stretch]
    theirs = [delays.visited[other] for rank in ranks if (other := stretch._replace(rank=rank)) in delays.visited]
    theirs = [each for each in theirs if each is not mine]
    longer: dict[Place, float] = {}
    for place, seconds in mine.lines.items():
        usual = sum(each.lines.get(place, 0.0) / each.visits for each in theirs) / len(theirs) if theirs else 0.0
        longer[place] = max(0.0, seconds / mine.visits - usual)
    whole = sum(longer.values())
    if not whole:
        file, line, op = stretch.before
        return {((file, line), op): 1.0}
    return {(place, ""): seconds / whole for place, seconds in longer.items() if seconds}
