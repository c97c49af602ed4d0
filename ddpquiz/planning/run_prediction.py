"""Predicts a run: plays what its ranks computed against the measured lines of this machine's collectives."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from ddpquiz.analysis.operation import POINT_TO_POINT, Operation
from ddpquiz.errors import UserError
from ddpquiz.planning.machine_bench import MachineBench, measured_as
from ddpquiz.planning.recorded_program import RecordedAction, RecordedMeeting, RecordedProgram

# What is not measured by default, and what costs about the same
LIKE = {"reduce": "broadcast", "scatter": "broadcast", "gather": "all_gather", "barrier": "all_reduce",
        "monitored_barrier": "all_reduce"}  # fmt: skip
Cost = Callable[[RecordedMeeting], float]


@dataclass(frozen=True, slots=True)
class PredictedOperation:
    """The calls of one operator in a step, on average over the ranks: their number, bytes, and predicted seconds."""

    op: str
    calls: float
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrediction:
    """The predicted step of a run: seconds on the slowest rank, computing on average, and what is communicated."""

    seconds: float
    steps: int
    by_steps: bool
    computing: float
    operations: tuple[PredictedOperation, ...]

    @property
    def waiting(self) -> float:
        """Seconds in which the slowest rank waits for others; negative if overlap hides more than that."""
        return self.seconds - self.computing - sum(each.seconds for each in self.operations)


def meeting_cost(bench: MachineBench, device: str) -> Cost:
    """Return what says the seconds of a collective; it raises UserError if nothing was measured for it."""

    def cost(meeting: RecordedMeeting) -> float:
        operation = meeting.operation
        ranks = len(meeting.operations) if operation.op in POINT_TO_POINT else len(operation.members)
        if ranks < 2:
            return 0.0
        op = "send" if operation.op in POINT_TO_POINT else measured_as(operation.op)
        group = bench.group(device, ranks)
        found = group and (group.fit_of(op) or group.fit_of(LIKE.get(op, op)))
        if not found:
            raise UserError(
                f"{op} on {ranks} ranks has not been measured on this machine yet: first run `ddpquiz bench --nproc"
                f" {ranks}`."
            )
        return found.seconds(meeting_bytes(meeting))

    return cost


def meeting_bytes(meeting: RecordedMeeting) -> int:
    """Return the bytes of a collective, as nccl-tests count them; the root of a scatter brings all parts."""
    return max((each.total_bytes for each in meeting.operations.values()), default=0)


@dataclass(slots=True)
class _Player:
    """Where one rank stands. `marks` are steps, or ends of calls in a run without steps; `computed` belongs to them."""

    actions: tuple[RecordedAction, ...]
    clock: float = 0.0
    next: int = 0
    total: float = 0.0  # seconds of computing
    marks: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)
    is_counted: bool = False  # the computing before the next action is added

    @property
    def is_over(self) -> bool:
        return self.next == len(self.actions)


class _Playback:
    """Plays the ranks against each other."""

    def __init__(self, program: RecordedProgram, costs: list[float]) -> None:
        self.meetings, self.costs, self.has_steps = program.meetings, costs, program.has_steps
        self.players = {rank: _Player(actions) for rank, actions in program.actions.items()}
        self._come: defaultdict[int, dict[int, float]] = defaultdict(dict)  # meeting -> rank -> when it came
        self._busy: defaultdict[tuple[str, tuple[int, ...]], float] = defaultdict(float)  # a group in the background
        self._ends: dict[int, float] = {}

    def play(self) -> None:
        """Play to the end; UserError if ranks wait for calls that nobody makes."""
        moved = True
        while moved:
            moved = False
            for rank, player in self.players.items():
                while not player.is_over and self._advance(rank, player):
                    moved = True
        if not all(player.is_over and player.marks for player in self.players.values()):
            raise UserError("The calls of this script's ranks do not match, so its time cannot be predicted.")

    def _advance(self, rank: int, player: _Player) -> bool:
        """Make the next action of a rank; return False if it must wait for another rank first."""
        action = player.actions[player.next]
        if not player.is_counted:
            player.clock += action.seconds
            player.total += action.seconds
            player.is_counted = True
        meets = action.meeting >= 0
        if action.kind in ("call", "post") and meets:
            self._come[action.meeting].setdefault(rank, player.clock)
        if action.kind in ("call", "wait") and meets:
            end = self._end(action.meeting, rank)
            if end is None:
                return False
            player.clock = max(player.clock, end)
        if action.kind == "step" if self.has_steps else action.kind in ("call", "wait"):
            player.marks.append(player.clock)
            player.computed.append(player.total)
        player.next, player.is_counted = player.next + 1, False
        return True

    def _end(self, index: int, rank: int) -> float | None:
        """Return when a collective is over for a rank, or None if a rank that it needs has not come yet."""
        meeting, come = self.meetings[index], self._come[index]
        operation = meeting.operations[rank]
        needed = _needed(operation, rank, meeting)
        if any(each not in come for each in needed):
            return None
        if len(needed) < len(meeting.operations):
            return max(come[each] for each in (*needed, rank)) + self.costs[index]
        if index not in self._ends:
            start = max(come.values())
            if operation.in_background:
                lane = operation.group, operation.members
                start = max(start, self._busy[lane])
                self._busy[lane] = start + self.costs[index]
            self._ends[index] = start + self.costs[index]
        return self._ends[index]


def predict_run(program: RecordedProgram, cost: Cost) -> RunPrediction:
    """Play a program: a collective ends `cost` after its last rank has come, and blocked ranks go on then.

    Those of one group in the background follow each other. A rank that only sends does not wait for the others.
    UserError if nothing is communicated, or if the calls of the ranks do not match.
    """
    if not program.meetings:
        raise UserError("This script communicates nothing, so there is nothing to predict.")
    costs = [cost(meeting) for meeting in program.meetings]
    playback = _Playback(program, costs)
    playback.play()
    players = playback.players.values()
    first, last = (0, min(len(each.marks) for each in players) - 1) if program.has_steps else (-1, -1)
    seconds = max(each.marks[last] for each in players)
    computed = sum(each.computed[last] for each in players)
    if program.has_steps:
        seconds -= max(each.marks[first] for each in players)
        computed -= sum(each.computed[first] for each in players)
    steps = last if program.has_steps else 1
    return RunPrediction(
        seconds=seconds / steps, steps=steps, by_steps=program.has_steps,
        computing=computed / len(players) / steps, operations=_operations(program, costs, steps),
    )  # fmt: skip


def _needed(operation: Operation, rank: int, meeting: RecordedMeeting) -> tuple[int, ...]:
    """Return the ranks without which an operation cannot end on a rank: a sender needs nobody else."""
    everybody, root = tuple(meeting.operations), operation.peer
    match operation.op:
        case "send":
            return (rank,)
        case "broadcast" | "scatter" if root in everybody:
            return (root,)
        case "reduce" | "gather" if rank != root:
            return (rank,)
    return everybody


def _operations(program: RecordedProgram, costs: list[float], steps: int) -> tuple[PredictedOperation, ...]:
    """Return what a rank calls between its first and its last step, by operator."""
    found: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for rank, actions in program.actions.items():
        marked = 0
        for action in actions:
            marked += action.kind == "step"
            counts = not program.has_steps or 0 < marked <= steps
            if action.kind in ("call", "post") and action.meeting >= 0 and counts:
                operation = program.meetings[action.meeting].operations[rank]
                name = f"{operation.op}, DDP" if operation.bucket is not None else operation.op
                found[name].append((meeting_bytes(program.meetings[action.meeting]), costs[action.meeting]))
    share = len(program.actions) * steps
    operations = (
        PredictedOperation(
            op, len(calls) / share, sum(size for size, _ in calls) / share, sum(time for _, time in calls) / share
        )
        for op, calls in found.items()
    )
    return tuple(sorted(operations, key=lambda each: -each.seconds))
