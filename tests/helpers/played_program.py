"""A program on two ranks that a test plays, without processes, and the advice on it."""

from rank_events import Rank, folded

from ddpquiz.events.run_summary import summarize


class Program:
    """Plays a program on two ranks, a call after the other, with a clock for each."""

    def __init__(self):
        self.ranks, self.clocks, self.device = [Rank(0), Rank(1)], [0.0, 0.0], "cpu"

    def call(self, op, line, takes, computes=(0.0, 0.0), **more):
        """Both compute, enter, and leave together."""
        self.clocks = [clock + each for clock, each in zip(self.clocks, computes, strict=True)]
        done = max(self.clocks) + takes
        for rank, clock in zip(self.ranks, self.clocks, strict=True):
            rank.sync(op, clock, done, line, **more)
        self.clocks = [done, done]
        return self

    def bucket(self, line, number=0, size=1 << 20):
        for rank, clock in zip(self.ranks, self.clocks, strict=True):
            rank.end(clock + 0.1, rank.issue("all_reduce", clock, line, bucket=number, asynchronous=True, bytes=size))
        self.clocks = [clock + 0.1 for clock in self.clocks]
        return self

    def mark(self, kind, *details):
        for rank, clock in zip(self.ranks, self.clocks, strict=True):
            rank.events.append(kind(clock, rank.rank, 99, *details))
        return self

    def compute(self, seconds):
        self.clocks = [clock + seconds for clock in self.clocks]
        return self

    def summed(self):
        end = max(self.clocks) + 1.0
        for rank in self.ranks:
            rank.exit(end)
        return summarize(folded(*self.ranks, end=end, device=self.device), end)

    def advice(self):
        return self.summed().advice


def only(program):
    """The one thing that there is to say."""
    (said,) = program.advice()
    return said


def shape(length):
    return {"shapes": ((length,),), "bytes": 4 * length}


def repeat(times, step):
    program = Program()
    for at in range(times):
        step(program, at)
    return program
