"""Which call sites of one run are those of another, although lines of the script may have moved between the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from ddpquiz.events.costs import Cost
from ddpquiz.events.event import Began, End, Event
from ddpquiz.events.timeline import RankTime, Timeline

# Which call sites of one run are those of another, although lines of the script may have moved between the runs.

MOST = (
    1_000_000  # pairs of call sites of one file that are weighed; beyond that, only sites in the same line are paired
)


@dataclass(frozen=True, order=True, slots=True)
class CallSite:
    """A line that calls an operator; `file` is the name without a folder, and empty for the script itself."""

    file: str
    line: int
    op: str


Pair = tuple[CallSite | None, CallSite | None]


def pair(first: Iterable[CallSite], second: Iterable[CallSite]) -> list[Pair]:
    """Return the call sites of two runs in pairs; a site that only one run has stands alone.

    Sites of a file keep their order and operator; of all ways to pair them, the one with the most pairs is taken, and
    among these the one with the most sites that did not move (a longest common subsequence, with weights).
    """
    files: dict[str, tuple[list[CallSite], list[CallSite]]] = defaultdict(lambda: ([], []))
    for number, sites in enumerate((first, second)):
        for site in sorted(sites):
            files[site.file][number].append(site)
    return [found for sites in files.values() for found in _pair_file(*sites)]


def _pair_file(first: list[CallSite], second: list[CallSite]) -> list[Pair]:
    if len(first) * len(second) > MOST:
        both = set(first) & set(second)
        alone: list[Pair] = [(site, None) for site in first if site not in both]
        return [*((site, site) for site in both), *alone, *((None, site) for site in second if site not in both)]
    best = _weigh(first, second)
    pairs: list[Pair] = []
    at, other = 0, 0
    while at < len(first) or other < len(second):
        if at < len(first) and best[at][other] == best[at + 1][other]:
            pairs.append((first[at], None))
            at += 1
        elif other < len(second) and best[at][other] == best[at][other + 1]:
            pairs.append((None, second[other]))
            other += 1
        else:
            pairs.append((first[at], second[other]))
            at, other = at + 1, other + 1
    return pairs


def _weigh(first: list[CallSite], second: list[CallSite]) -> list[list[int]]:
    """Return, for each place in both lists, what the best pairs from there on weigh."""
    pairs = len(first) + len(second) + 1  # one more pair outweighs any number of sites that did not move
    best = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for at in range(len(first) - 1, -1, -1):
        for other in range(len(second) - 1, -1, -1):
            mine, theirs = first[at], second[other]
            weight = pairs + (mine.line == theirs.line) if mine.op == theirs.op else -1
            best[at][other] = max(best[at + 1][other], best[at][other + 1], weight + best[at + 1][other + 1])
    return best


# How two runs differ: time, calls and bytes of each call site, each kind of operation and each rank.

WORTH = 0.05  # of the ranks' time in the longer run; smaller differences come and go between runs of one script
NOTICED = 0.1  # of the larger of two times, by which they must differ


@dataclass(frozen=True, slots=True)
class Amounts:
    """What calls cost: seconds of an average rank of the run; calls and bytes of an average rank that makes them."""

    calls: float
    bytes: float
    seconds: float
    waiting: float  # of these seconds, until the last rank entered


NOTHING = Amounts(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CostChange:
    """Calls of an operator in run A and in run B; None if the run has none. A kind of operation has no lines."""

    op: str
    a: Amounts | None
    b: Amounts | None
    file: str = ""
    line_a: int | None = None
    line_b: int | None = None
    is_ddp: bool = False

    @property
    def difference(self) -> float:
        """Seconds of an average rank that B takes longer."""
        return (self.b or NOTHING).seconds - (self.a or NOTHING).seconds

    @property
    def same_calls(self) -> bool:
        """True if both runs make as many calls, with as many bytes."""
        a, b = self.a or NOTHING, self.b or NOTHING
        return (a.calls, a.bytes) == (b.calls, b.bytes)


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of two runs: what ran, on how many ranks, for how long, and why it failed (empty if it did not)."""

    script: str
    ranks: int
    seconds: float  # from its start to its end
    times: tuple[RankTime, ...]
    why: str

    @property
    def lifetime(self) -> float:
        """Seconds of an average rank."""
        return sum(each.lifetime for each in self.times) / max(1, self.ranks)

    def average(self, kind: str) -> float:
        """Return the seconds that an average rank spent on `kind`, a field of RankTime."""
        return sum(float(getattr(each, kind)) for each in self.times) / max(1, self.ranks)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run A beside run B; sites and kinds are sorted by how much their time differs."""

    a: ComparedRun
    b: ComparedRun
    sites: tuple[CostChange, ...]
    kinds: tuple[CostChange, ...]

    @property
    def both(self) -> list[CostChange]:
        """The call sites that both runs have."""
        return [each for each in self.sites if each.a and each.b]

    @property
    def new(self) -> list[CostChange]:
        return [each for each in self.sites if each.a is None]

    @property
    def gone(self) -> list[CostChange]:
        return [each for each in self.sites if each.b is None]

    @property
    def slower(self) -> list[CostChange]:
        return [each for each in self.both if each.difference > 0 and self._matters(each)]

    @property
    def faster(self) -> list[CostChange]:
        return [each for each in self.both if each.difference < 0 and self._matters(each)]

    @property
    def differs(self) -> bool:
        """True if calls or bytes differ, or a time by more than it does between two runs of one script."""
        whole = self.is_noticed(self.a.lifetime, self.b.lifetime)
        parts = any(self.is_noticed(self.a.average(kind), self.b.average(kind)) for kind in ("compute", "waiting"))
        calls = any(not each.same_calls for each in self.sites)
        return calls or whole or parts or bool(self.slower or self.faster) or self.a.ranks != self.b.ranks

    def is_noticed(self, first: float, second: float) -> bool:
        """Return True if two durations differ by more than they do between two runs of one script."""
        change, lifetime = abs(first - second), max(self.a.lifetime, self.b.lifetime)
        return change > WORTH * lifetime and change > NOTICED * max(first, second)

    def share(self, seconds: float) -> float:
        """Return a duration as a part of the time of an average rank of run A."""
        return seconds / self.a.lifetime if self.a.lifetime else 0.0

    def as_json(self) -> dict[str, Any]:
        costs = {
            name: [asdict(each) | {"difference": each.difference} for each in changes]
            for name, changes in (("sites", self.sites), ("kinds", self.kinds))
        }
        return {"event": "comparison", "differs": self.differs, "a": asdict(self.a), "b": asdict(self.b)} | costs

    def _matters(self, each: CostChange) -> bool:
        return self.is_noticed((each.a or NOTHING).seconds, (each.b or NOTHING).seconds)


def compare(first: Sequence[Event], second: Sequence[Event]) -> Comparison:
    """Return how the second of two saved runs differs from the first; each has a `run` and an `end` event."""
    (a, sites_a), (b, sites_b) = _account(first), _account(second)
    sites = []
    for mine, theirs in pair(sites_a, sites_b):
        if site := mine or theirs:
            costs_a, costs_b = sites_a[mine] if mine else [], sites_b[theirs] if theirs else []
            change = CostChange(
                op=site.op, file=site.file or PurePath((a if mine else b).script).name,
                line_a=mine.line if mine else None, line_b=theirs.line if theirs else None,
                a=_amounts(costs_a, a.ranks), b=_amounts(costs_b, b.ranks),
                is_ddp=any(cost.is_ddp for cost in (*costs_a, *costs_b)),
            )  # fmt: skip
            sites.append(change)
    kinds = [
        CostChange(
            op=op,
            a=_amounts((cost for site, costs in sites_a.items() if site.op == op for cost in costs), a.ranks),
            b=_amounts((cost for site, costs in sites_b.items() if site.op == op for cost in costs), b.ranks),
        )
        for op in sorted({site.op for site in (*sites_a, *sites_b)})
    ]
    return Comparison(a, b, _sorted(sites), _sorted(kinds))


def _sorted(changes: list[CostChange]) -> tuple[CostChange, ...]:
    return tuple(sorted(changes, key=lambda each: -abs(each.difference)))


def _account(events: Sequence[Event]) -> tuple[ComparedRun, dict[CallSite, list[Cost]]]:
    """Return one run, and what its calls cost by call site; lines of equal names in two folders count together."""
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    began = next(event for event in events if isinstance(event, Began))
    end = next(event for event in reversed(events) if isinstance(event, End))
    script = PurePath(began.script).name
    sites: dict[CallSite, list[Cost]] = {}
    for (file, line, op), cost in timeline.costs.lines.items():
        name = PurePath(file).name
        sites.setdefault(CallSite("" if name == script else name, line, op), []).append(cost)
    times = tuple(timeline.totals(end.time).values())
    return ComparedRun(began.script, began.ranks, end.time, times, end.why), sites


def _amounts(costs: Iterable[Cost], ranks: int) -> Amounts | None:
    """Return the total cost of the calls; None without calls."""
    found = list(costs)
    if not found:
        return None
    callers = len(set().union(*(cost.ranks for cost in found))) or 1
    return Amounts(
        calls=sum(cost.calls for cost in found) / callers, bytes=sum(cost.bytes for cost in found) / callers,
        seconds=sum(cost.seconds for cost in found) / ranks, waiting=sum(cost.waiting for cost in found) / ranks,
    )  # fmt: skip
