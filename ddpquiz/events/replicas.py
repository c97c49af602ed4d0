"""Whether the replicas of a DDP model stay equal: compares the checksums that ranks report after optimizer steps."""

from collections import defaultdict
from itertools import zip_longest

from ddpquiz.events.event import Event, Exited, Note, ReplicaSums, Started
from ddpquiz.events.formatting import format_place, format_ranks
from ddpquiz.plural import plural

_NAMED = 3  # parameters that a note lists
_Model = tuple[tuple[int, ...], int]  # the ranks that hold a replica, and its number among the models of these ranks


class Replicas:
    """Compares checksums; of each model, only the first difference is reported. `script` is the name of the file."""

    def __init__(self, script: str) -> None:
        self.script = script
        self._restart = self._compared = 0
        self._has_differed = False
        self._forget()

    def _forget(self) -> None:
        self._steps: defaultdict[_Model, dict[int, dict[int, ReplicaSums]]] = defaultdict(dict)  # model -> step -> rank
        self._names: dict[_Model, tuple[str, ...]] = {}
        self._different: set[_Model] = set()
        self._gone: set[int] = set()

    def add(self, event: Event) -> Note | None:
        """A note if this event shows that replicas differ."""
        match event:
            case Started(restart=restart) if restart > self._restart:  # all ranks start again
                self._forget()
                self._restart = restart
            case Exited(rank=rank):
                self._gone.add(rank)
                waiting = [(model, step) for model, steps in self._steps.items() for step in sorted(steps)]
                return next(filter(None, (self._judge(model, step) for model, step in waiting)), None)
            case ReplicaSums():
                return self._compare(event)
        return None

    def conclusion(self) -> str:
        """What a run that is over has shown; empty if replicas differed, which was told then."""
        if self._has_differed:
            return ""
        if not self._compared:
            return "--check-replicas compared nothing: no optimizer has updated a DDP model."
        return f"--check-replicas compared replicas {plural(self._compared, 'time')}: they were equal each time."

    def _compare(self, event: ReplicaSums) -> Note | None:
        model = event.members, event.model
        if event.names:
            self._names[model] = event.names
        if model in self._different:
            return None
        self._steps[model].setdefault(event.step, {})[event.rank] = event
        return self._judge(model, event.step)

    def _judge(self, model: _Model, step: int) -> Note | None:
        """Compare a step that all members that still run have made."""
        ranks = self._steps[model].get(step, {})
        if not ranks or {*model[0]} - self._gone - {*ranks}:
            return None
        del self._steps[model][step]
        self._compared += 1
        if len({report.sums for report in ranks.values()}) < 2:
            return None
        self._different.add(model)
        self._has_differed = True
        del self._steps[model]
        last = max(ranks.values(), key=lambda report: report.time)
        return Note(last.time, min(_split(ranks)[0]), self._sentence(model, ranks))

    def _sentence(self, model: _Model, ranks: dict[int, ReplicaSums]) -> str:
        odd, usual = _split(ranks)
        first = ranks[min(ranks)]
        place = f" ({format_place(self.script, first.line)})" if first.line else ""
        names = self._names.get(model, ())
        columns = enumerate(zip_longest(*(report.sums for report in ranks.values())))
        different = [names[at] if at < len(names) else f"parameter {at}" for at, sums in columns if len({*sums}) > 1]
        more = len(different) - _NAMED
        listed = ", ".join(different[:_NAMED])
        what = f"{listed} and {plural(more, 'more parameter')}" if more > 0 else listed
        who = f"{format_ranks(odd)} {'has' if len(odd) == 1 else 'have'} different values from {format_ranks(usual)}"
        return f"After optimizer step {first.step:,}{place} the replicas differ: {who} in {what}."


def _split(ranks: dict[int, ReplicaSums]) -> tuple[list[int], list[int]]:
    """The ranks that differ, and the largest group of ranks that agree."""
    groups: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank in sorted(ranks):
        groups[ranks[rank].sums].append(rank)
    usual = max(groups.values(), key=len)
    return sorted({*ranks} - {*usual}), usual
