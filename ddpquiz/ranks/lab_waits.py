"""Whether ranks wait for the asynchronous operations that a learner's file calls.

What cannot be decided counts as awaited: a file that asks works or futures by itself, a collective that another library
calls for it, and more open operations than the recorder holds.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ddpquiz.analysis.events import Event, Issued, Output, Started, Waited
from ddpquiz.analysis.operation import POINT_TO_POINT, Operation
from ddpquiz.ranks.lab_failure import FinishedRun
from ddpquiz.ranks.lab_verdict import LabVerdict

MOST_OPEN = 900  # the recorder forgets the oldest of a thousand
BATCH = "batch_isend_irecv"
_ASKS_WORKS = {"is_completed", "is_success", "synchronize", "block_current_stream"}  # other ways to know of an end
_ASKS_FUTURES = {"get_future", "_functional_collectives"}
_TOO_EARLY = {"send": "changed or freed before it is sent", "recv": "read before it is received"}


@dataclass(slots=True)
class _Rank:
    """What a rank has issued in its last attempt: the operations that nobody has waited for yet, with their seed."""

    left: dict[int, tuple[Operation, int | None]] = field(default_factory=dict)
    issued: int = 0
    most: int = 0
    seed: int | None = None


def find_forgotten(file: Path, finished: FinishedRun) -> LabVerdict | None:
    """Return the verdict on the first asynchronous operation for which a rank never waits."""
    try:
        source = _Source(file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # it was saved anew meanwhile
        return None
    ranks = _follow(finished.events, source)
    values = {rank: _counted(each) for rank, each in sorted(ranks.items()) if each.issued}
    for rank, each in sorted(ranks.items()):
        if each.left and each.most < MOST_OPEN:
            operation, seed = next(iter(each.left.values()))
            name, line = source.name_of(operation), operation.line
            early = _TOO_EARLY.get(operation.op, "read or changed before it is done")
            kept = "wait() on each of them" if name == BATCH else "wait() on it"
            return LabVerdict(
                outcome="no wait", caught="no wait", seconds=0, runs=0, rank=rank, line=line, seed=seed, values=values,
                sentence=f"Rank {rank} never waits for the {name} in line {line}, so its tensor may be {early}.",
                advice=f"Keep what {name} returns, and call {kept}.",
            )  # fmt: skip
    return None


def _follow(events: Iterable[Event], source: "_Source") -> dict[int, _Rank]:
    """Return what each rank has issued and left; a rank that was killed begins anew."""
    ranks: dict[int, _Rank] = {}
    for event in events:
        match event:
            case Started(rank=rank):
                ranks[rank] = _Rank()
            case Output(rank=rank, label="seed", value=str(value)) if rank in ranks and value.isdecimal():
                ranks[rank].seed = int(value)
            case Issued(rank=rank, operation=operation) if rank in ranks and source.must_wait(operation):
                each = ranks[rank]
                each.left[event.number] = operation, each.seed
                each.issued += 1
                each.most = max(each.most, len(each.left))
            case Waited(rank=rank) if rank in ranks:
                ranks[rank].left.pop(event.number, None)
    return ranks


def _counted(rank: _Rank) -> str:
    return f"never waits for {len(rank.left)} of {rank.issued}" if rank.left else f"waits for all {rank.issued}"


class _Source:
    """What the text of a learner's file says of its calls."""

    def __init__(self, file: Path) -> None:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
        names = {_last_name(node) for node in nodes} | {each.name for node in nodes for each in _imported(node)}
        names |= {part for name in names for part in name.split(".")}
        self._path = str(file.absolute())
        self._by_works = not names & _ASKS_WORKS
        self._by_futures = not names & _ASKS_FUTURES
        self._calls = [node for node in nodes if isinstance(node, ast.Call)]

    def must_wait(self, operation: Operation) -> bool:
        """Return whether the file itself has issued an operation, and must wait for its work."""
        if not (self._by_works and operation.asynchronous and operation.file == self._path):
            return False
        return operation.op in POINT_TO_POINT or (
            self._by_futures and any(word.arg == "async_op" for call in self._at(operation) for word in call.keywords)
        )

    def name_of(self, operation: Operation) -> str:
        """Return the function that a learner calls for an operation."""
        if operation.op not in POINT_TO_POINT:
            return operation.op
        batched = any(_last_name(call.func) == BATCH for call in self._at(operation))
        return BATCH if batched else f"i{operation.op}"

    def _at(self, operation: Operation) -> list[ast.Call]:
        return [call for call in self._calls if call.lineno <= operation.line <= (call.end_lineno or 0)]


def _last_name(node: ast.AST) -> str:
    """Return `wait` for `work.wait`; strings count too, for getattr."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
            return name
        case ast.ImportFrom(module=str(name)):
            return name
    return ""


def _imported(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
