"""Kernels in front of torch's collectives, which report each call to the recorder of this process.

Each collective, also the bucket all-reduces of DDP's C++ reducer, passes through an operator of the dispatcher's `c10d`
library. A kernel registered at BackendSelect runs before that of the backend, reports the call and passes it on
unchanged. To register all kernels takes 20 ms, so the server does that once, for the ranks that it forks.
"""

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import torch

from ddpquiz.ranks.inside import torch_private
from ddpquiz.ranks.inside.operations import OpenOperation, OpenOperations, Operator, caller_of, mark_for, work_of
from ddpquiz.ranks.inside.torch_private import TorchPrivate


class CallReporter(Protocol):
    """What kernels call: a Recorder."""

    operations: OpenOperations

    def issue(self, operator: Operator, args: tuple[Any, ...], caller: FrameType | None) -> OpenOperation:
        """Report that an operation was called."""

    def follow(
        self, opened: OpenOperation, operator: Operator, args: tuple[Any, ...], caller: FrameType | None
    ) -> None:
        """See to it that the end of an operation is reported."""


class Kernels:
    """One kernel for each operator; they only pass calls on while `reporter` is None."""

    def __init__(self, private: TorchPrivate) -> None:
        self.private = private
        self.reporter: CallReporter | None = None
        self._libraries: list[torch.library.Library] = []  # a kernel lives as long as its library

    def register(self) -> None:
        """Put a kernel in front of each operator."""
        below = self.private.keyset_after(self.private.backend_select)
        kernels = [("_c10d_functional", "wait_tensor", self._wait_tensor_kernel(below))]
        for name, overload in self.private.operators().items():
            if "process_group" in torch_private.argument_names(overload):
                kernels.append(("c10d", name, self._kernel(Operator.of(overload, name, self.private), below)))
        for namespace, name, kernel in kernels:
            library = torch.library.Library(namespace, "IMPL")
            library.impl(name, kernel, "BackendSelect", with_keyset=True)
            self._libraries.append(library)

    def remove(self) -> None:
        """Remove the kernels."""
        self._libraries.clear()

    def _kernel(self, operator: Operator, below: Any) -> Callable[..., Any]:
        redispatch = operator.redispatch

        def kernel(keyset: Any, *args: Any) -> Any:
            reporter = self.reporter
            if reporter is None:
                return redispatch(keyset & below, *args)
            opened, caller = None, caller_of(sys._getframe().f_back)  # noqa: SLF001  # as inspect does
            try:
                opened = reporter.issue(operator, args, caller)
                opened.begun = mark_for(args[operator.inputs])
            except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
                reporter.operations.report_fault(fault)
            try:
                out = redispatch(keyset & below, *args)  # releases the GIL
            except BaseException:
                if opened:
                    reporter.operations.refused(opened.number)
                raise
            try:
                if opened:
                    opened.work = work_of(out, self.private)
                    reporter.follow(opened, operator, args, caller)
            except Exception as fault:  # noqa: BLE001  # the same
                reporter.operations.report_fault(fault)
            return out

        return kernel

    def _wait_tensor_kernel(self, below: Any) -> Callable[..., Any]:
        """The kernel for the operator that waits for a functional collective."""
        redispatch = self.private.wait_tensor

        def kernel(keyset: Any, tensor: torch.Tensor) -> torch.Tensor:
            reporter = self.reporter
            if reporter is None:
                return redispatch(keyset & below, tensor)
            operations, opened, since = reporter.operations, None, 0.0
            try:
                if operations.by_storage:
                    opened = operations.by_storage.pop(tensor.untyped_storage().data_ptr(), None)
                    since = operations.waits(opened) if opened else 0.0
            except Exception as fault:  # noqa: BLE001  # the same
                operations.report_fault(fault)
            out: torch.Tensor = redispatch(keyset & below, tensor)
            try:
                if opened:
                    operations.remove(opened)
                    operations.waited(opened, since)
            except Exception as fault:  # noqa: BLE001  # the same
                operations.report_fault(fault)
            return out

        return kernel


_registered: list[Kernels] = []  # those of this process, at most one


def registered() -> Kernels:
    """The kernels of this process, registered if they were not.

    AttributeError or RuntimeError if this torch does not allow collectives to be watched.
    """
    if not _registered:
        kernels = Kernels(torch_private.find())
        kernels.register()
        _registered.append(kernels)
    return _registered[0]


def prepare() -> None:
    """Register the kernels for the processes that this one will fork, if this torch allows that."""
    with contextlib.suppress(AttributeError, RuntimeError):  # each rank will say so
        registered()


def remove() -> None:
    """Remove the kernels that this process inherited."""
    for kernels in _registered:
        kernels.remove()
    _registered.clear()
