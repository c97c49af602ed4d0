"""The line of the script that made the other ranks wait longest."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ddpquiz.events.costs import ComputeSpan, DelayCosts, Place
from ddpquiz.events.formatting import format_place, format_ranks, format_seconds
from ddpquiz.events.operation import CallPlace
from ddpquiz.events.timeline import Timeline


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
        where = f"computing before {place}" if self.before else f"at {place}"
        if self.before and self.line:
            where += f" ({self.before})"
        cost = f"{format_seconds(self.seconds)} in all, {self.share:.0%} of their time"
        if self.rank is None:
            return (
                f"The ranks took turns waiting for each other ({cost}): each time, one "
                f"spent longer than the others {where}. "
                "The work is uneven from step to step, and no single rank is the cause: give all ranks about as much "
                "work in each step, such as batches of equal length."
            )
        late = format_ranks([self.rank])
        return f"The other ranks waited for {late} ({cost}), which spent longer {where} than they did."


_SHARE_OF_LINE = 0.1  # of the other ranks' time that the line of one rank must cost
_ONE_RANK = 0.6  # of a line's cost, which makes that rank the one to name
_MOST_OF = 0.5  # of what the computing between two calls cost, for a line to be named
_BY_CHANCE = 0.3  # of the seconds for which cores were missing, that ranks with equal work wait for each other
_IN_TURN = 0.25  # of the ranks' time that a line must cost where it delays them in turn
_MOSTLY_THERE, _IN_TURN_THERE = 0.4, 0.15  # of the time between the two calls, from which on this share is enough
_LEAST, _ONCE = 0.1, 0.25  # seconds that a line must cost, and if it was late only now and then
_OFTEN_LATE = 5  # times
_Line = tuple[Place, str]  # and the call that follows, if the line was not seen


def find_costliest_line(timeline: Timeline, now: float) -> CostliestLine | None:
    """The line that cost the other ranks most; None if no line stands out, or the run failed."""
    lifetimes = {rank: totals.lifetime for rank, totals in timeline.totals(now).items()}
    delays = timeline.delays
    if timeline.failed or not delays.seconds:
        return None
    uneven = [spans for spans in _by_calls(delays) if _is_uneven(delays, spans)]
    others = delays.seconds.keys() - {span for spans in uneven for span in spans}
    found = [_costliest_of(timeline, [span for span in delays.seconds if span in others], lifetimes)]
    found += [_cost_of_uneven(timeline, spans, lifetimes) for spans in uneven]
    return max((each for each in found if each), key=lambda each: each.seconds, default=None)


def _costliest_of(
    timeline: Timeline, spans: Collection[ComputeSpan], lifetimes: Mapping[int, float]
) -> CostliestLine | None:
    """The costliest line of some spans, if it stands out."""
    costs = _by_line(timeline.delays, spans)
    if not costs:
        return None
    line, by_rank = max(costs.items(), key=lambda item: sum(cost for cost, _ in item[1].values()))
    whole = sum(cost for cost, _ in by_rank.values())
    rank, (most, times) = max(by_rank.items(), key=lambda item: item[1][0])
    (file, number), before = line
    others = sum(lifetimes.values()) - lifetimes.get(rank, 0.0)
    if most >= _ONE_RANK * whole:
        least = _LEAST if times >= _OFTEN_LATE else _ONCE
        if others and most >= max(least, _SHARE_OF_LINE * others):
            return CostliestLine(file, number, rank, most, most / others, before)
    elif whole >= _least_in_turn(timeline, lifetimes, _IN_TURN):
        return CostliestLine(file, number, None, whole, whole / sum(lifetimes.values()), before)
    return None


def _by_calls(delays: DelayCosts) -> list[list[ComputeSpan]]:
    """The spans of all ranks that lie between the same two calls."""
    spans: defaultdict[tuple[CallPlace | None, CallPlace], list[ComputeSpan]] = defaultdict(list)
    for span in delays.seconds:
        spans[span.after, span.before].append(span)
    return list(spans.values())


def _is_uneven(delays: DelayCosts, spans: Collection[ComputeSpan]) -> bool:
    """True if ranks are late in turn between two calls: now one computes for longer there, now another.

    At which of the lines each of them was seen is chance then. It is not if most of the cost is that of one rank at
    one line.
    """
    whole = sum(delays.seconds[span] for span in spans)
    is_of_one = max(delays.seconds[span] for span in spans) >= _ONE_RANK * whole
    if is_of_one or sum(delays.times[span] for span in spans) < _OFTEN_LATE:
        return False
    at_line, most = _costliest_place(delays, spans)[1:]
    return at_line < _MOST_OF * whole or most < _ONE_RANK * at_line


def _costliest_place(delays: DelayCosts, spans: Collection[ComputeSpan]) -> tuple[_Line, float, float]:
    """The costliest line of some spans, what it cost, and how much of that because of a single rank."""
    costs = {line: [cost for cost, _ in by_rank.values()] for line, by_rank in _by_line(delays, spans).items()}
    line = max(costs, key=lambda each: sum(costs[each]))
    return line, sum(costs[line]), max(costs[line])


def _cost_of_uneven(
    timeline: Timeline, spans: Sequence[ComputeSpan], lifetimes: Mapping[int, float]
) -> CostliestLine | None:
    """What uneven work between two calls cost, if that is much; at the next call, if it is spread over lines."""
    delays = timeline.delays
    whole = sum(delays.seconds[span] for span in spans)
    there = whole + sum(sum(delays.visited[span].lines.values()) for span in spans)
    share = _IN_TURN if whole < _MOSTLY_THERE * there else _IN_TURN_THERE
    if whole < _least_in_turn(timeline, lifetimes, share):
        return None
    ((file, number), before), at_line, _ = _costliest_place(timeline.delays, spans)
    if at_line < _MOST_OF * whole:
        file, number, before = spans[0].before
    return CostliestLine(file, number, None, whole, whole / sum(lifetimes.values()), before)


def _least_in_turn(timeline: Timeline, lifetimes: Mapping[int, float], share: float) -> float:
    """The seconds that ranks must have lost in turn; where cores are missing, they lose some with equal work, too."""
    missed = sum(rank.missed_cores.seconds for rank in timeline.training.values() if rank.missed_cores)
    return max(_LEAST, _BY_CHANCE * missed, share * sum(lifetimes.values()))


def _by_line(delays: DelayCosts, spans: Collection[ComputeSpan]) -> dict[_Line, dict[int, tuple[float, int]]]:
    """The seconds and times for which each rank made others wait at each line of some spans."""
    by_line: defaultdict[_Line, dict[int, tuple[float, int]]] = defaultdict(dict)
    ranks = {span.rank for span in delays.visited}
    for span in spans:
        cost = delays.seconds[span]
        for line, share in _lines(delays, span, ranks).items():
            seconds, times = by_line[line].get(span.rank, (0.0, 0))
            by_line[line][span.rank] = seconds + cost * share, times + delays.times[span]
    return by_line


def _lines(delays: DelayCosts, span: ComputeSpan, ranks: set[int]) -> dict[_Line, float]:
    """The lines at which a rank spent longer in a span than the others did, with their shares."""
    mine = delays.visited[span]
    same_spans = [span._replace(rank=rank) for rank in ranks if rank != span.rank]
    others = [delays.visited[same] for same in same_spans if same in delays.visited]
    longer: dict[Place, float] = {}
    for place, seconds in mine.lines.items():
        usual = sum(times.lines.get(place, 0.0) / times.visits for times in others) / len(others) if others else 0.0
        longer[place] = max(0.0, seconds / mine.visits - usual)
    whole = sum(longer.values())
    if not whole:
        file, line, op = span.before
        return {((file, line), op): 1.0}
    return {(place, ""): seconds / whole for place, seconds in longer.items() if seconds}
