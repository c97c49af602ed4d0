"""Operations that torch issues and waits for in C++, where no wait of Python is seen: DDP's buffers and its checks."""

import functools
import threading
from collections.abc import Callable
from typing import Any

from ddpquiz.ranks.inside.operations import OpenOperation, OpenOperations


class _OfThread(threading.local):
    """How deep a thread is in such functions, and what they have issued."""

    depth = 0
    opened: list[OpenOperation]


class NativeWaits:
    """Knows when this rank is in a function that returns only when the operations that it issues have ended.

    Each of them counts as a synchronous call, which blocks the rank until its future is done.
    """

    def __init__(self, operations: OpenOperations) -> None:
        self.operations = operations
        self._local = _OfThread()  # a thread of the script may issue others meanwhile

    @property
    def inside(self) -> bool:
        """Whether this thread is in such a function."""
        return self._local.depth > 0

    def add(self, opened: OpenOperation) -> None:
        """Note an operation that the function has issued."""
        self._local.opened.append(opened)

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what the original does, and sees to its operations when it returns."""
        local = self._local

        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            if not local.depth:
                local.opened = []
            local.depth += 1
            failed = True
            try:
                result = original(*args, **kwargs)
                failed = False
            finally:
                local.depth -= 1
                if not local.depth:
                    self._finish(local.opened, failed=failed)
            return result

        return function

    def _finish(self, issued: list[OpenOperation], *, failed: bool) -> None:
        try:
            for opened in issued:
                self.operations.remove(opened)
                if not failed:  # else the futures say which operations have failed
                    self.operations.waited(opened, self.operations.writer.now())
        except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
            self.operations.report_fault(fault)
