"""Which operations a script begins with async_op=True and never waits for, reported when the process ends."""

import atexit
import functools
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch.distributed as dist

from ddpquiz.events.event import NeverAwaited
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import is_own

_C10D = dist.distributed_c10d.__file__
_BETWEEN = (_C10D, _C10D.replace("distributed_c10d", "c10d_logger"))  # a call of the script and the operation
_USES = ("is_completed", "synchronize", "result")  # methods by which a script may wait, beside wait()
_MOST = 10_000  # works for which nobody has waited yet
_PLACES = 5  # that are reported
_Place = tuple[str, int, str]  # file, line, operator

is_completed, get_future = dist.Work.is_completed, dist.Work.get_future  # the recorder's uses are not the script's


class AsyncResults:
    """Counts operations that were begun in the background, and those of them that were awaited, by line."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self._begun: Counter[_Place] = Counter()
        self._awaited: Counter[_Place] = Counter()
        self._open: dict[int, _Place] = {}  # by the identity of the work
        self._last: Any = None  # keeps the identity of a work that is done before the script has got it
        self._is_on = True

    def install(self) -> None:
        """Notice each use of a work, and report at the end of the process."""
        for name in _USES:
            if original := getattr(dist.Work, name, None):
                setattr(dist.Work, name, self._noticing(original))
        atexit.register(self._report)

    def begin(self, work: Any, op: str, caller: FrameType | None, *, asynchronous: bool) -> None:
        """Note an operation on the CPU; its work may have the identity of one that is gone."""
        self._open.pop(id(work), None)
        if not asynchronous or not self._is_on or op == "send" or op.endswith("barrier"):  # these leave no result
            return
        while caller is not None and caller.f_code.co_filename in _BETWEEN:
            caller = caller.f_back
        if caller is not None and is_own(caller.f_code.co_filename):
            place = caller.f_code.co_filename, caller.f_lineno, op
            self._begun[place] += 1
            self._open[id(work)], self._last = place, work
            self._is_on = len(self._open) < _MOST

    def use(self, work: Any) -> None:
        """Note that the script waits for a work, or asks whether it is done."""
        if place := self._open.pop(id(work), None):
            self._awaited[place] += 1
            self._last = None

    def _noticing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(work: Any, *args: Any, **options: Any) -> Any:
            self.use(work)
            return original(work, *args, **options)

        return method

    def _report(self) -> None:
        """Send the lines that waited for less than half of what they began: a last one may be left at the end."""
        left = {place: calls - self._awaited[place] for place, calls in self._begun.items()}
        often = [place for place, count in left.items() if 2 * count > self._begun[place]]
        for file, line, op in often[: _PLACES * self._is_on]:
            place = file, line, op
            now, rank = self.writer.now(), self.writer.rank
            self.writer.send(NeverAwaited(now, rank, line, file, op, left[place], self._begun[place]))
