"""The state of a run after calls that a test makes up, without processes."""

from ddpquiz.events.event import Began, Ended, Exited, Issued, ScriptFinished
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState


def call(line, op="all_reduce", shape=(4,), members=(0, 1, 2), peer=None, file="train.py"):
    return Operation(op, members, peer, (shape,), "float32", 4 * shape[0], file, line, "0")


def state_of(*calls, ranks=3, ended=True, more=()):
    """The state after each rank has made its calls, given as one list for each rank."""
    state = RunState()
    state.add(Began("train.py", (), ranks, "cpu", "gloo", ""))
    time = 0.0
    for number in range(max(map(len, calls))):
        for rank, made in enumerate(calls):
            if number < len(made):
                time += 0.001
                state.add(Issued(time, rank, number + 1, made[number]))
        arrived = [rank for rank, made in enumerate(calls) if number < len(made)]
        same = len({calls[rank][number] for rank in arrived}) == 1 and len(arrived) == ranks
        for rank in arrived if ended and same else ():
            state.add(Ended(time + 0.0005, rank, number + 1))
    for event in more:
        state.add(event)
    return state


def finished(*ranks, at=1.0):
    """The events of ranks that come to the end of their script, and exit."""
    return [each for rank in ranks for each in (ScriptFinished(at, rank, 0), Exited(at, rank, 0))]
