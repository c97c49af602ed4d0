"""Mistakes with operations that a script begins in the background: it never waits, or changes the tensor before.

The first is reported when the process ends, the second when the script waits. PyTorch counts how often a tensor was
changed in place, and a backend counts what it writes itself only in the call or in the wait, except for the mean, which
Gloo computes in a thread of its own; so any other tensor whose count differs when the wait begins was changed by the
script. Views share the count of their base: what was not the whole of its memory may be untouched.
"""

import atexit
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist

from ddpquiz.events.event import ChangedBeforeWait, NeverAwaited
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import is_own, locate

_C10D = dist.distributed_c10d.__file__
_BETWEEN = (_C10D, _C10D.replace("distributed_c10d", "c10d_logger"))  # a call of the script and the operation
_USES = ("is_completed", "synchronize", "result")  # methods by which a script may wait, beside wait()
_MOST = 10_000  # works for which nobody has waited yet
_PLACES = 5  # that are reported of each mistake
_RECEIVING = ("all_reduce", "recv")  # only a wait tells that such an operation no longer writes to its tensors
_Place = tuple[str, int, str]  # file, line, operator

is_completed, get_future = dist.Work.is_completed, dist.Work.get_future  # the recorder's uses are not the script's


@dataclass(slots=True, eq=False)
class _Begun:
    """An operation for which nobody has waited yet.

    `heard` is how often the rank had heard from others when it was called.
    """

    place: _Place
    tensors: Sequence[ref[torch.Tensor]]
    versions: Sequence[int]
    heard: int


class AsyncResults:
    """Counts operations that were begun in the background, and those of them that were awaited, by line."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self._begun: Counter[_Place] = Counter()
        self._awaited: Counter[_Place] = Counter()
        self._open: dict[int, _Begun] = {}  # by the identity of the work
        self._changed: set[_Place] = set()
        self._heard = 0  # waits, and calls that wait: another rank may have said by then that it has got a tensor
        self._last: Any = None  # keeps the identity of a work that is done before the script has got it
        self._is_on = True

    def install(self) -> None:
        """Notice each use of a work, and report at the end of the process."""
        for name in _USES:
            if original := getattr(dist.Work, name, None):
                setattr(dist.Work, name, self._noticing(original))
        atexit.register(self._report)

    def begin(
        self, work: Any, op: str, caller: FrameType | None, tensors: Sequence[torch.Tensor], *, asynchronous: bool
    ) -> None:
        """Note an operation on the CPU; its work may have the identity of one that is gone."""
        self._open.pop(id(work), None)
        if not asynchronous:
            self._heard += 1
        if not asynchronous or not self._is_on or op.endswith("barrier"):  # that leaves no result
            return
        while caller is not None and caller.f_code.co_filename in _BETWEEN:
            caller = caller.f_back
        if caller is not None and is_own(caller.f_code.co_filename):
            place = caller.f_code.co_filename, caller.f_lineno, op
            if op != "send":  # nor does this
                self._begun[place] += 1
            counted = [each for each in tensors if not each.is_inference()]
            self._open[id(work)] = _Begun(place, [*map(ref, counted)], [*map(_version, counted)], self._heard)
            self._last = work
            self._is_on = len(self._open) < _MOST

    def use(self, work: Any) -> None:
        """Note that the script waits for a work, or asks whether it is done."""
        if begun := self._open.pop(id(work), None):
            self._awaited[begun.place] += 1
            self._last = None

    def wait(self, work: Any) -> None:
        """Note that the script begins to wait for a work."""
        if (begun := self._open.get(id(work))) and begun.place not in self._changed and self._has_changed(begun):
            self._changed.add(begun.place)
            (file, line, op), (waited_in, waited_at) = begun.place, locate()
            self.writer.send(
                ChangedBeforeWait(self.writer.now(), self.writer.rank, line, file, op, waited_in, waited_at)
            )
        self.use(work)
        self._heard += 1

    def _has_changed(self, begun: _Begun) -> bool:
        """Whether the script has changed a tensor while the operation may have used it."""
        changed = [
            tensor
            for each, version in zip(begun.tensors, begun.versions, strict=True)
            if (tensor := each()) is not None and _version(tensor) != version
        ]
        may_be_sent = begun.heard != self._heard and not begun.place[2].startswith(_RECEIVING)
        return not may_be_sent and len(self._changed) < _PLACES and any(map(_is_whole, changed))

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


def _version(tensor: torch.Tensor) -> int:
    return int(tensor._version)  # noqa: SLF001  # how often it, or a view of its memory, was changed in place


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory, so that what has changed there is a part of it."""
    return tensor.layout is torch.strided and tensor.untyped_storage().nbytes() == tensor.nbytes
