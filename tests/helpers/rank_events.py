"""Events of ranks that a test makes up, without processes, and their timeline."""

from ddpquiz.events.event import (
    Began,
    Claimed,
    ClaimText,
    End,
    Ended,
    Exited,
    Issued,
    Output,
    Result,
    Started,
    Waited,
    Waiting,
)
from ddpquiz.events.operation import Operation
from ddpquiz.events.timeline import Timeline


class Rank:
    """Records the events of one rank."""

    def __init__(self, rank, world=2, start=0.0):
        self.rank, self.world, self.number = rank, world, 0
        self.events = [Started(start, rank, 100 + rank)]

    def issue(self, op, at, line=1, **more):
        self.number += 1
        given = {
            "members": tuple(range(self.world)), "peer": None, "shapes": ((4,),), "dtype": "float32", "bytes": 16,
            "file": "train.py", "line": line, "group": "0",
        } | more  # fmt: skip
        self.events.append(Issued(at, self.rank, self.number, Operation(op, **given)))
        return self.number

    def end(self, at, number=None, **more):
        self.events.append(Ended(at, self.rank, number or self.number, **more))
        return self

    def sync(self, op, at, to, line=1, **more):
        self.issue(op, at, line, **more)
        return self.end(to)

    def waiting(self, at, number):
        self.events.append(Waiting(at, self.rank, number))
        return self

    def wait(self, since, until, number):
        self.events.append(Waited(until, self.rank, number, since))
        return self

    def exit(self, at, status=0):
        self.events.append(Exited(at, self.rank, status))
        return self


def began(ranks, device="cpu"):
    return Began("train.py", (), ranks, device, "gloo", "")


def folded(*ranks, end=None, hung=None, device="cpu"):
    timeline = Timeline()
    timeline.add(began(len(ranks), device))
    for event in sorted((event for rank in ranks for event in rank.events), key=lambda event: event.time):
        timeline.add(event)
    if hung:
        timeline.add(hung)
    if end is not None:
        timeline.add(End(end, not hung, 0, 0))
    return timeline


def late_run():
    """The events of a run in which rank 1 comes late, and both then wait for two operations at once."""
    early, late = Rank(0).sync("all_reduce", 1, 5, line=7), Rank(1).sync("all_reduce", 4, 5, line=7)
    early.events.append(Result(5, 0, 1, ("[3.0]",)))
    for rank in (early, late):
        first, second = rank.issue("all_gather", 6, asynchronous=True), rank.issue("barrier", 6.5, asynchronous=True)
        rank.end(8, first).end(9, second).exit(10)
    said = [
        Output(5.5, 1, "stdout", "loss: 0.5", "loss", "0.5"),
        Output(5.5, 1, "stdout", "state: nan", "state", "nan"),
        Claimed(5.6, 1, 9, True),
    ]
    first = Began("train.py", (), 2, "cpu", "gloo", "", (ClaimText(9, "it holds"),))
    between = sorted([*early.events, *late.events, *said], key=lambda event: event.time)
    return [first, *between, End(10, True, 1, 1)]
