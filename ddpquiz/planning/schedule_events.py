"""A simulated pipeline as the events of a run, so that it is stepped through, drawn and saved like a real one."""

from collections.abc import Iterator

from ddpquiz.analysis.events import SIMULATED, Began, End, Ended, Event, Exited, Issued, Output, Started, when
from ddpquiz.analysis.operation import MAX_RANKS, Operation
from ddpquiz.errors import UserError
from ddpquiz.planning.pipeline_order import StagePiece
from ddpquiz.planning.schedule import PipelineRun, Slot


def schedule_events(run: PipelineRun, title: str, tensor_bytes: int) -> list[Event]:
    """Return the events of a simulated pipeline; `tensor_bytes` is the size of what stages send each other.

    UserError if the pipeline has more ranks than a run can have.
    """
    count = len(run.ranks)
    if count > MAX_RANKS:
        raise UserError(f"A replay has at most {MAX_RANKS:,} ranks; this pipeline has {count:,}.")
    began = Began(title, (), count, "cpu", SIMULATED, "a plan: nothing ran", title=title)
    between: list[Event] = []
    for rank, slots in enumerate(run.ranks):
        between.append(Started(0.0, rank, 0))
        events = list(_rank_events(run, rank, slots, tensor_bytes))
        between += [*events, *_wait_for_end(run, rank, slots, events), Exited(run.seconds, rank, 0)]
    between.sort(key=when)  # stable: events of one moment stay in the order of their rank
    return [began, *between, End(run.seconds, ok=True, proven=0, claims=0)]


def _rank_events(run: PipelineRun, rank: int, slots: tuple[Slot, ...], size: int) -> Iterator[Event]:
    count, last = len(run.ranks), len(run.ranks) * run.chunks - 1
    number, free = 0, 0.0
    for slot in slots:
        for piece in slot.task:
            source = _source(piece, count, last)
            if source is not None and source != rank:
                number += 1
                yield Issued(free, rank, number, _operation("recv", piece, rank, source, size))
                yield Ended(slot.start, rank, number)
        yield Output(slot.start, rank, "out", f"task: {name(slot)}", "task", name(slot))
        for piece in slot.task:
            target = _target(piece, count, last)
            if target is not None and target != rank:
                number += 1
                yield Issued(slot.end, rank, number, _operation("send", piece, rank, target, size))
                yield Ended(slot.end, rank, number)
        free = slot.end


def _wait_for_end(run: PipelineRun, rank: int, slots: tuple[Slot, ...], events: list[Event]) -> list[Event]:
    """Return that a rank waits until all have done their tasks; else the time after its last one would look busy."""
    number = 1 + sum(isinstance(event, Issued) for event in events)
    everybody = Operation("barrier", tuple(range(len(run.ranks))), None, (), "", 0, "", 0, group="step")
    done = slots[-1].end if slots else 0.0
    return [Issued(done, rank, number, everybody), Ended(run.seconds, rank, number)]


def name(slot: Slot) -> str:
    """Name what a rank does: `F 3`, `B 1`, or `F 4 B 2` side by side; `*` marks the other direction of DualPipe."""
    shown = [piece for piece in slot.task if piece.kind != "W" or len(slot.task) == 1]
    return " ".join(f"{piece.kind} {piece.micro_batch}" + "*" * piece.way for piece in shown)


def _rank_of(stage: int, way: int, count: int) -> int:
    return count - 1 - stage if way else stage % count


def _source(piece: StagePiece, count: int, last: int) -> int | None:
    """Return the rank from which a piece receives."""
    if piece.kind == "F" and piece.stage:
        return _rank_of(piece.stage - 1, piece.way, count)
    if piece.kind == "B" and piece.stage < last:
        return _rank_of(piece.stage + 1, piece.way, count)
    return None


def _target(piece: StagePiece, count: int, last: int) -> int | None:
    """Return the rank to which the result of a piece goes."""
    if piece.kind == "F" and piece.stage < last:
        return _rank_of(piece.stage + 1, piece.way, count)
    if piece.kind == "B" and piece.stage:
        return _rank_of(piece.stage - 1, piece.way, count)
    return None


def _operation(op: str, piece: StagePiece, rank: int, peer: int, size: int) -> Operation:
    """Return a send or receive; each kind of tensor has a group of its own, so that they are matched in order."""
    members = tuple(sorted((rank, peer)))
    group = f"{'activations' if piece.kind == 'F' else 'gradients'} {piece.way}"
    return Operation(op, members, peer, ((size // 2,),), "bfloat16", size, "", 0, group=group)
