"""Inside a rank: see every collective and point-to-point operation, whoever issues it.

Each of them, also the bucket all-reduces of DDP's C++ reducer, passes through an operator of the dispatcher's `c10d`
library. A kernel registered at BackendSelect runs before the backend's own, notes the call and hands it on unchanged.
Where an operation ends is told by the future of its work; point-to-point work has none on Gloo and ends when its `wait`
returns. This rests on private names of torch: where they are gone, the run goes on unwatched and says so.
"""

from __future__ import annotations

import itertools
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ddpquiz.ranks.events import Ended, Issued, Note, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

    from ddpquiz.ranks.worker import Teller

FEW = 16  # the values of tensors with up to this many elements are kept
NAMES = {
    "allreduce_": "all_reduce", "allgather_": "all_gather", "alltoall_": "all_to_all", "recv_any_source_": "recv",
    "alltoall_base_": "all_to_all_single", "_allgather_base_": "all_gather_into_tensor",
    "_reduce_scatter_base_": "reduce_scatter_tensor", "allreduce_coalesced_": "all_reduce_coalesced",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
}  # fmt: skip
INPUTS = ("tensors", "input_tensors", "input_tensor", "input_list", "inputs", "input")
OUTPUTS = ("output_tensors", "output_tensor", "output_lists", "outputs", "output", "tensors")
PEERS = ("root_rank", "dst", "src")
_TORCH = os.path.dirname(torch.__file__) + os.sep  # noqa: PTH120  # compared with the text of co_filename
_OURS = os.path.dirname(__file__) + os.sep  # noqa: PTH120
_LIBRARIES: list[torch.library.Library] = []


class _Open:
    """Operations that have not ended, by their work."""

    def __init__(self) -> None:
        self.by_work: dict[int, tuple[Any, int, list[torch.Tensor]]] = {}
        self.numbers: set[int] = set()


def install(teller: Teller, script: str) -> None:
    """Note every operation from now on; `script` is the file whose lines are named."""
    try:
        below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        names = [full.split("::")[1] for full in torch._C._dispatch_get_all_op_names() if full.startswith("c10d::")]
        running = _Open()
        _watch_wait(teller, running)
        numbers = itertools.count(1)
        for name in names:
            operator = getattr(torch.ops.c10d, name).default
            arguments = [argument.name for argument in operator._schema.arguments]
            if "process_group" in arguments:
                library = torch.library.Library("c10d", "IMPL")
                kernel = _kernel(operator, name, arguments, below, teller, running, numbers, script)
                library.impl(name, kernel, "BackendSelect", with_keyset=True)
                _LIBRARIES.append(library)
    except (AttributeError, RuntimeError) as gone:
        text = f"This torch ({torch.__version__}) does not let its collectives be watched: {gone}"
        teller.tell(Note(teller.now(), teller.rank, text))


def _kernel(
    operator: Any, name: str, arguments: list[str], below: Any, teller: Teller, running: _Open,
    numbers: Iterator[int], script: str,
) -> Callable[..., Any]:  # fmt: skip
    group_at = arguments.index("process_group")
    input_at = next(arguments.index(each) for each in (*INPUTS, "tensor", *OUTPUTS) if each in arguments)
    output_at = next((arguments.index(each) for each in OUTPUTS if each in arguments), None)
    peer_at = next((arguments.index(each) for each in PEERS if each in arguments), None)
    said = NAMES.get(name, name.rstrip("_"))

    def note(args: tuple[Any, ...], number: int) -> None:
        members = _members(dist.ProcessGroup.unbox(args[group_at]).group_name)
        peer = None if peer_at is None else args[peer_at]
        if peer is not None and 0 <= peer < len(members):
            peer = members[peer]
        brought = _tensors(args[input_at]) or ([] if output_at is None else _tensors(args[output_at]))
        file, line = standing(script)
        issued = Issued(
            teller.now(), teller.rank, number, said, members, peer,
            tuple(tuple(tensor.shape) for tensor in brought),
            str(brought[0].dtype).removeprefix("torch.") if brought else "",
            sum(tensor.nbytes for tensor in brought), file, line,
            () if said == "recv" else _values(brought),  # a receive brings nothing but room
        )  # fmt: skip
        running.numbers.add(number)
        teller.tell(issued)

    def follow(out: Any, args: tuple[Any, ...], number: int) -> None:
        work = _work(out)
        if work is None:  # a monitored barrier has ended when the call returns
            _end(teller, running, number)
            return
        outputs = [] if output_at is None else _tensors(args[output_at])
        running.by_work[id(work)] = (work, number, outputs)
        try:
            work.get_future().add_done_callback(lambda _: _end(teller, running, number))
        except RuntimeError:  # this work has no future: _watch_wait sees its end
            return

    def kernel(keyset: Any, *args: Any) -> Any:
        number = next(numbers)
        _safely(note, teller, args, number)
        out = operator.redispatch(keyset & below, *args)  # drops the GIL
        _safely(follow, teller, out, args, number)
        return out

    return kernel


def _watch_wait(teller: Teller, running: _Open) -> None:
    original = dist.Work.wait

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = original(self, *args, **kwargs)
        _, number, outputs = running.by_work.pop(id(self), (None, 0, []))
        if number:
            _end(teller, running, number)
            _safely(_tell_result, teller, number, outputs, teller)
        return done

    dist.Work.wait = wait


def _tell_result(number: int, outputs: list[torch.Tensor], teller: Teller) -> None:
    after = _values(outputs)
    if after:
        teller.tell(Result(teller.now(), teller.rank, number, after))


def _end(teller: Teller, running: _Open, number: int) -> None:
    """Tell the end of an operation, once: its future and its wait may both call this."""
    if number in running.numbers:
        running.numbers.discard(number)
        teller.tell(Ended(teller.now(), teller.rank, number))


def _safely(act: Callable[..., None], teller: Teller, *args: Any) -> None:
    try:
        act(*args)
    except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
        teller.tell(Note(teller.now(), teller.rank, f"The recorder missed an operation: {fault!r}"))


@cache
def _members(group_name: str) -> tuple[int, ...]:
    group = dist.distributed_c10d._resolve_process_group(group_name)
    return tuple(dist.get_process_group_ranks(group))


def forget_groups() -> None:
    """Forget who belongs to which group: new groups may take the names of old ones."""
    _members.cache_clear()


def _work(out: Any) -> Any:
    for each in out if isinstance(out, tuple | list) else (out,):
        if isinstance(each, torch.ScriptObject):
            return dist.Work.unbox(each)
    return None


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)] if isinstance(value, tuple | list) else []


def _values(tensors: list[torch.Tensor]) -> tuple[str, ...]:
    if sum(tensor.numel() for tensor in tensors) > FEW or any(tensor.device.type != "cpu" for tensor in tensors):
        return ()  # nothing waits for a GPU here
    return tuple(str(tensor.detach().tolist()) for tensor in tensors)


def standing(script: str = "") -> tuple[str, int]:
    """Return the file and line where the program stands: in the script, or else in the nearest file of nobody's."""
    frame = sys._getframe(1)
    outside = ("", 0)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == script:
            return script, frame.f_lineno
        if not outside[1] and _foreign(code):
            outside = (code.co_filename, frame.f_lineno)
            if not script:
                break
        frame = frame.f_back  # type: ignore[assignment]
    return outside


@cache
def _foreign(code: CodeType) -> bool:
    return not code.co_filename.startswith((_TORCH, _OURS, "<"))
