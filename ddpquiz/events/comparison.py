"""How two runs differ: time, calls and bytes of each call site, each kind of operation and each rank.

Lines of the script may have moved between the runs: `pair_call_sites` says which call sites of one are those of the
other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from ddpquiz.events.costs import Cost
from ddpquiz.events.event import Began, End, Event
from ddpquiz.events.timeline import RankTime, Timeline

_WORTH = 0.05  # of the ranks' time in the longer run; smaller differences come and go between runs of one script
_NOTICED = 0.1  # of the larger of two times, by which they must differ
# Pairs of call sites of one file that are weighed; beyond that, only sites in the same line are paired
_MOST_PAIRS = 1_000_000


@dataclass(frozen=True, slots=True)
class Amounts:
    """What calls cost: seconds of an average rank of the run; calls and bytes of an average rank that makes them."""

    calls: float
    bytes: float
    seconds: float
    waiting: float  # of these seconds, until the last rank entered


_NOTHING = Amounts(0.0, 0.0, 0.0, 0.0)


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
        return (self.b or _NOTHING).seconds - (self.a or _NOTHING).seconds

    @property
    def same_calls(self) -> bool:
        """True if both runs make as many calls, with as many bytes."""
        a, b = self.a or _NOTHING, self.b or _NOTHING
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
        return sum(time.lifetime for time in self.times) / max(1, self.ranks)

    def average(self, kind: str) -> float:
        """The seconds that an average rank spent on `kind`, a field of RankTime."""
        return sum(float(getattr(time, kind)) for time in self.times) / max(1, self.ranks)


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
        return [site for site in self.sites if site.a and site.b]

    @property
    def new(self) -> list[CostChange]:
        return [site for site in self.sites if site.a is None]

    @property
    def gone(self) -> list[CostChange]:
        return [site for site in self.sites if site.b is None]

    @property
    def slower(self) -> list[CostChange]:
        return [site for site in self.both if site.difference > 0 and self._matters(site)]

    @property
    def faster(self) -> list[CostChange]:
        return [site for site in self.both if site.difference < 0 and self._matters(site)]

    @property
    def differs(self) -> bool:
        """True if calls or bytes differ, or a time by more than it does between two runs of one script."""
        whole = self.is_noticed(self.a.lifetime, self.b.lifetime)
        parts = any(self.is_noticed(self.a.average(kind), self.b.average(kind)) for kind in ("compute", "waiting"))
        calls = any(not site.same_calls for site in self.sites)
        return calls or whole or parts or bool(self.slower or self.faster) or self.a.ranks != self.b.ranks

    def is_noticed(self, first: float, second: float) -> bool:
        """True if two durations differ by more than they do between two runs of one script."""
        change, lifetime = abs(first - second), max(self.a.lifetime, self.b.lifetime)
        return change > _WORTH * lifetime and change > _NOTICED * max(first, second)

    def share(self, seconds: float) -> float:
        """A duration as a part of the time of an average rank of run A."""
        return seconds / self.a.lifetime if self.a.lifetime else 0.0

    def as_json(self) -> dict[str, Any]:
        costs = {
            name: [asdict(change) | {"difference": change.difference} for change in changes]
            for name, changes in (("sites", self.sites), ("kinds", self.kinds))
        }
        return {"event": "comparison", "differs": self.differs, "a": asdict(self.a), "b": asdict(self.b)} | costs

    def _matters(self, change: CostChange) -> bool:
        return self.is_noticed((change.a or _NOTHING).seconds, (change.b or _NOTHING).seconds)


def compare(first: Sequence[Event], second: Sequence[Event]) -> Comparison:
    """How the second of two saved runs differs from the first; each has a `run` and an `end` event."""
    (a, sites_a), (b, sites_b) = _account(first), _account(second)
    sites = []
    for site_a, site_b in pair_call_sites(sites_a, sites_b):
        if site := site_a or site_b:
            costs_a, costs_b = sites_a[site_a] if site_a else [], sites_b[site_b] if site_b else []
            change = CostChange(
                op=site.op, file=site.file or PurePath((a if site_a else b).script).name,
                line_a=site_a.line if site_a else None, line_b=site_b.line if site_b else None,
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
    return tuple(sorted(changes, key=lambda change: -abs(change.difference)))


def _account(events: Sequence[Event]) -> tuple[ComparedRun, dict[CallSite, list[Cost]]]:
    """One run, and what its calls cost by call site; lines of equal names in two folders count together."""
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
    return ComparedRun(began.script, began.ranks, end.time, times, "" if end.ok else end.why), sites


def _amounts(costs: Iterable[Cost], ranks: int) -> Amounts | None:
    """The total cost of the calls; None without calls."""
    costs = list(costs)
    if not costs:
        return None
    callers = len(set().union(*(cost.ranks for cost in costs))) or 1
    return Amounts(
        calls=sum(cost.calls for cost in costs) / callers, bytes=sum(cost.bytes for cost in costs) / callers,
        seconds=sum(cost.seconds for cost in costs) / ranks, waiting=sum(cost.waiting for cost in costs) / ranks,
    )  # fmt: skip


@dataclass(frozen=True, order=True, slots=True)
class CallSite:
    """A line that calls an operator; `file` is the name without a folder, and empty for the script itself."""

    file: str
    line: int
    op: str


_Pair = tuple[CallSite | None, CallSite | None]


def pair_call_sites(first: Iterable[CallSite], second: Iterable[CallSite]) -> list[_Pair]:
    """The call sites of two runs in pairs; a site that only one run has stands alone.

    Sites of a file keep their order and operator; of all ways to pair them, the one with the most pairs is taken, and
    among these the one with the most sites that did not move (a longest common subsequence, with weights).
    """
    files: dict[str, tuple[list[CallSite], list[CallSite]]] = defaultdict(lambda: ([], []))
    for number, sites in enumerate((first, second)):
        for site in sorted(sites):
            files[site.file][number].append(site)
    return [pair for sites in files.values() for pair in _pair_file(*sites)]


def _pair_file(first: list[CallSite], second: list[CallSite]) -> list[_Pair]:
    if len(first) * len(second) > _MOST_PAIRS:
        both = set(first) & set(second)
        alone: list[_Pair] = [(site, None) for site in first if site not in both]
        return [*((site, site) for site in both), *alone, *((None, site) for site in second if site not in both)]
    best = _weigh(first, second)
    pairs: list[_Pair] = []
    i = j = 0
    while i < len(first) or j < len(second):
        if i < len(first) and best[i][j] == best[i + 1][j]:
            pairs.append((first[i], None))
            i += 1
        elif j < len(second) and best[i][j] == best[i][j + 1]:
            pairs.append((None, second[j]))
            j += 1
        else:
            pairs.append((first[i], second[j]))
            i, j = i + 1, j + 1
    return pairs


def _weigh(first: list[CallSite], second: list[CallSite]) -> list[list[int]]:
    """What the best pairs weigh from each place in both lists on."""
    pairs = len(first) + len(second) + 1  # one more pair outweighs any number of sites that did not move
    best = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in range(len(first) - 1, -1, -1):
        for j in range(len(second) - 1, -1, -1):
            weight = pairs + (first[i].line == second[j].line) if first[i].op == second[j].op else -1
            best[i][j] = max(best[i + 1][j], best[i][j + 1], weight + best[i + 1][j + 1])
    return best
