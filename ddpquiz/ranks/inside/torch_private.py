"""The private names of torch on which the recorder rests. No other module uses any.

They are looked up once, before anything is changed. If one is missing, `find` raises AttributeError, and the run goes
on unwatched.
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

NAMES = {
    "keyset_after": "_C._dispatch_keyset_full_after",
    "backend_select": "_C.DispatchKey.BackendSelect",
    "operator_names": "_C._dispatch_get_all_op_names",
    "graph_task_id": "_C._current_graph_task_id",
    "queue_callback": "autograd.Variable._execution_engine.queue_callback",
    "backward_code": "autograd.graph._engine_run_backward.__code__",
    "unbox_group": "distributed.ProcessGroup.unbox",
    "unbox_work": "distributed.Work.unbox",
    "source_rank": "distributed.Work._source_rank",
    "reduce_op_type": "distributed.ReduceOp.RedOpType",
    "future_type": "_C.Future",
    "find_group": "distributed.distributed_c10d._resolve_process_group",
    "broadcast_coalesced": "distributed._broadcast_coalesced",
    "verify_parameters": "distributed._verify_params_across_processes",
    "rebuild_buckets": "distributed.Reducer._rebuild_buckets",
    "wait_tensor": "ops._c10d_functional.wait_tensor.default._handle.redispatch_boxed",
}
_DIRECT_NAMES = {
    "backend": "_C._distributed_c10d.Backend",
    "get_backend": "distributed.ProcessGroup._get_backend",
    "dispatch_modes": "_C._len_torch_dispatch_stack",
    "is_profiled": "autograd._profiler_enabled",
    "in_graph": "_C._distributed_c10d._allow_inflight_collective_as_graph_input",
    "interpreter": "_C._functorch.peek_interpreter_stack",
    "asynchronous": "_C._distributed_c10d.AllreduceOptions.asyncOp",
}


@dataclass(frozen=True, slots=True)
class TorchPrivate:
    """What stands behind NAMES."""

    keyset_after: Callable[[Any], Any]
    backend_select: Any
    operator_names: Callable[[], list[str]]
    graph_task_id: Callable[[], int]  # of the backward that runs in this thread; -1: none
    queue_callback: Callable[[Callable[[], None]], None]  # called when this backward is done
    backward_code: Any  # the code of the frame in which autograd works
    unbox_group: Callable[[Any], Any]
    unbox_work: Callable[[Any], Any]
    source_rank: Callable[[Any], int]  # of a receive from any rank
    reduce_op_type: Any
    future_type: Any  # of what Work.get_future returns
    find_group: Callable[[str], Any]
    broadcast_coalesced: Callable[..., Any]  # these wait for their operations in C++, as DDP and FSDP call them
    verify_parameters: Callable[..., Any]
    rebuild_buckets: Callable[..., Any]  # in the second forward pass of DDP
    wait_tensor: Callable[..., Any]

    def operators(self) -> dict[str, Any]:
        """The overloads of the c10d operators, by name."""
        names = [full.split("::")[1] for full in self.operator_names() if full.startswith("c10d::")]
        return {name: getattr(torch.ops.c10d, name).default for name in names}

    def wrap_blocking(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace the functions that return only when the operations that they issue in C++ have ended."""
        for field in ("broadcast_coalesced", "verify_parameters", "rebuild_buckets"):
            owner, _, name = NAMES[field].rpartition(".")
            setattr(functools.reduce(getattr, owner.split("."), torch), name, wrap(getattr(self, field)))


@dataclass(frozen=True, slots=True)
class DirectPrivate:
    """What stands behind DIRECT_NAMES: how a group reaches its backend, and what else may look at a call."""

    backend: Any
    get_backend: Callable[[Any, torch.device], Any]
    dispatch_modes: Callable[[], int]  # how many are active in this thread
    is_profiled: Callable[[], bool]
    in_graph: Callable[[], bool]  # a compiled graph takes works as inputs
    interpreter: Callable[[], Any]  # of torch.func's transformations; None: none is active
    asynchronous: Any  # the option that says whether a call is; before torch 2.8 it does not exist


def find() -> TorchPrivate:
    """Look up every name; AttributeError if torch has one no longer."""
    return TorchPrivate(**_look_up(NAMES))


def find_direct() -> DirectPrivate | None:
    """Look up the names that direct calls need; None if torch has one no longer."""
    try:
        return DirectPrivate(**_look_up(_DIRECT_NAMES))
    except AttributeError:
        return None


def _look_up(names: dict[str, str]) -> dict[str, Any]:
    return {field: functools.reduce(getattr, path.split("."), torch) for field, path in names.items()}


def argument_names(overload: Any) -> list[str]:
    """The names of the arguments of an operator."""
    return [argument.name for argument in overload._schema.arguments]  # noqa: SLF001


def redispatch(overload: Any) -> Callable[..., Any]:
    """What calls the kernels of an operator that come after a dispatch key."""
    found: Callable[..., Any] = overload._handle.redispatch_boxed  # noqa: SLF001
    return found


def groups() -> list[Any]:
    """The process groups that this process has formed; none if torch does not tell them."""
    return list(getattr(getattr(torch.distributed.distributed_c10d, "_world", None), "pg_map", ()))


def default_store() -> Any:
    """The store of the default process group; None if torch does not tell it."""
    get = getattr(torch.distributed.distributed_c10d, "_get_default_store", None)
    return get() if get else None


def current_stream() -> Any:
    """What tells the current stream of the current GPU from others; None if torch does not tell it.

    A build for CPUs has none of these names.
    """
    find, device = getattr(torch._C, "_cuda_getCurrentStream", None), getattr(torch._C, "_cuda_getDevice", None)  # noqa: SLF001
    return find(device()) if find and device else None


def exclude_from_graphs() -> None:
    """Let torch.compile run the recorder's functions as they are, instead of compiling them with the script's.

    It has been imported by now if the script names it, see PRELOADS in server_connection.py.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if skip := getattr(rules, "add", None):
        skip(__name__.partition(".")[0])
