"""Where a training loop reads a tensor in each step, as `loss.item()` does: on a GPU the CPU waits there."""

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from ddpquiz.ranks.inside.source_location import is_own

READS = {"item": "item()", "tolist": "tolist()", "cpu": "cpu()", "__float__": "float()", "__repr__": "print()",
         "__format__": "print()"}  # fmt: skip
OFTEN = 20  # steps one after the other in which a line reads
PATIENCE = 200  # steps after which nothing is watched any more
_PLAIN = (torch.Tensor, torch.nn.Parameter)
Place = tuple[str, str, int]


class Reads:
    """Reports the first line that reads a tensor in each of OFTEN steps, once.

    A tensor counts if it is on a GPU, or if gradients flow through it: that would be on a GPU in other runs.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.mark, self.left = mark, PATIENCE
        self._originals = {name: getattr(torch.Tensor, name) for name in READS}
        self._inherited = {name for name in READS if name not in vars(torch.Tensor)}
        self._in_a_row: dict[Place, int] = {}
        self._now: dict[Place, bool] = {}  # lines that have read since the last step: whether on a GPU
        self._main = threading.main_thread()
        for name, original in self._originals.items():
            setattr(torch.Tensor, name, self._reader(name, original))

    def _reader(self, name: str, original: Any) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(tensor: Any, *args: Any, **options: Any) -> Any:
            if type(tensor) in _PLAIN and (tensor.is_cuda or tensor.requires_grad):
                frame = sys._getframe(1)  # noqa: SLF001  # what inspect.currentframe() returns
                if is_own(frame.f_code.co_filename) and threading.current_thread() is self._main:
                    self._now[name, frame.f_code.co_filename, frame.f_lineno] = tensor.is_cuda
            return original(tensor, *args, **options)

        return read

    def step(self) -> None:
        """Note that an optimizer has made a step."""
        if not self.left:
            return
        self.left -= 1
        self._in_a_row = {place: self._in_a_row.get(place, 0) + 1 for place in self._now}
        often = [place for place, times in self._in_a_row.items() if times == OFTEN]
        for name, file, line in often[:1]:
            where = "gpu" if self._now[name, file, line] else "cpu"
            self.mark(f"read {where} {READS[name]} {os.path.basename(file)[:100]}:{line}")  # noqa: PTH119  # a text
            self.left = 0
        self._now.clear()
        if not self.left:
            self._restore()

    def _restore(self) -> None:
        for name, original in self._originals.items():
            if name in self._inherited:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, original)
