"""How the call of an operation is written in sentences."""

from ddpquiz.analysis.formatting import format_place, format_shapes
from ddpquiz.analysis.operation import Operation

_PEER = {"send": " to rank {}", "recv": " from rank {}"}


def call_at(operation: Operation) -> str:
    """Write an operation and its line: `all_reduce at train.py:12`."""
    return f"{operation.op} at {format_place(operation.file, operation.line)}" if operation.line else operation.op


def request(operation: Operation) -> str:
    """Write what a call asks for: `broadcast of 4 float32 with root 0`."""
    size = f" of {format_shapes(operation.shapes)} {operation.dtype}" if operation.shapes else ""
    root = "" if operation.peer is None else _PEER.get(operation.op, " with root {}").format(operation.peer)
    return f"{operation.op}{size}{root}"


def request_at(operation: Operation) -> str:
    """Write what a call asks for, and its line."""
    place = f" at {format_place(operation.file, operation.line)}" if operation.line else ""
    reduce = f" ({operation.reduce})" if operation.reduce else ""
    return f"{request(operation)}{reduce}{place}"
