"""The line that made others wait is named, through chains of waits; an innocent rank never is."""

import itertools
import random

import passed
import pytest
from inline_snapshot import snapshot
from rank_events import Rank, began
from real_run import end, run

from ddpquiz.events.costliest_line import find_costliest_line
from ddpquiz.events.event import Alive, CoresMissed, End, Forming, Joining, OptimizerStep
from ddpquiz.events.timeline import Timeline

pytestmark = passed.ENGINE

STEPS = 12
LAST = 0.001  # seconds that an operation takes once all are there


class Job:
    """Ranks of a made-up run, each with a clock. What they compute is seen at its line."""

    def __init__(self, count, *, seen=True):
        self.ranks, self.clocks, self.seen = [Rank(rank, count) for rank in range(count)], [0.0] * count, seen

    def compute(self, rank, seconds, line):
        for at in range(int(seconds / 0.05)):
            if self.seen:
                moment = self.clocks[rank] + at * 0.05
                self.ranks[rank].events.append(Alive(moment, rank, "train.py", line))
        self.clocks[rank] += seconds

    def meet(self, line, members=None, group="0"):
        members = tuple(range(len(self.ranks)) if members is None else members)
        done = max(self.clocks[rank] for rank in members) + LAST
        for rank in members:
            self.ranks[rank].sync("all_reduce", self.clocks[rank], done, line, members=members, group=group)
            self.clocks[rank] = done

    def pass_on(self, source, to, line):
        self.ranks[source].sync("send", self.clocks[source], self.clocks[source] + LAST, line, peer=to)
        done = max(self.clocks[source], self.clocks[to]) + LAST
        self.ranks[to].sync("recv", self.clocks[to], done, line + 1, peer=source)
        self.clocks[source] += LAST
        self.clocks[to] = done

    def costliest(self):
        end = max(self.clocks)
        timeline = Timeline()
        timeline.add(began(len(self.ranks)))
        for rank in self.ranks:
            rank.exit(end)
        for event in sorted((event for rank in self.ranks for event in rank.events), key=lambda event: event.time):
            timeline.add(event)
        timeline.add(End(end, ok=True, proven=0, claims=0))
        return find_costliest_line(timeline, end)


@pytest.mark.parametrize("seed", range(40))
def test_a_straggler_is_named_with_its_line_in_every_trial_and_nobody_is_where_all_are_alike(seed):
    dice = random.Random(seed)
    count, straggler = dice.choice([2, 3, 4, 8]), dice.random() < 0.7
    late, excess = dice.randrange(count), dice.uniform(0.15, 0.5)
    job = Job(count)
    for step, rank in itertools.product(range(STEPS), range(count)):
        for line in (10, 11, 12):  # the same work everywhere, which takes a little longer now and then
            job.compute(rank, dice.uniform(0.1, 0.11), line)
        if rank == late and straggler:
            job.compute(rank, excess, 20)
        if rank == count - 1:
            job.meet(30 + step % 2)
    found = job.costliest()
    if not straggler:
        assert found is None
    else:
        assert (found.file, found.line, found.rank) == ("train.py", 20, late)
        assert found.seconds == pytest.approx(STEPS * excess * (count - 1), rel=0.25)


def test_the_rank_at_the_head_of_a_chain_of_waits_is_charged_for_all_of_them():
    job = Job(4)
    for _ in range(STEPS):
        job.compute(0, 0.2, 5)
        for rank in range(3):
            job.pass_on(rank, rank + 1, 7)
        job.meet(9)
    found = job.costliest()
    assert (found.line, found.rank) == (5, 0)
    assert found.seconds == pytest.approx(STEPS * 0.2 * 3, rel=0.05)


def test_a_chain_through_groups_leads_to_its_cause():
    job = Job(3)
    for _ in range(STEPS):
        job.compute(0, 0.3, 5)
        job.meet(7, (0, 1), "a")
        job.compute(1, 0.05, 6)
        job.meet(8, (1, 2), "b")
        job.meet(9)
    found = job.costliest()
    assert (found.line, found.rank) == (5, 0)
    assert found.seconds == pytest.approx(STEPS * (0.3 + 0.3), rel=0.1)


def test_work_before_the_last_meeting_is_not_charged_again():
    job = Job(2)
    job.compute(0, 5.0, 5)
    for rank in (0, 1):
        job.compute(rank, 5.0 * rank, 6)
    for _ in range(STEPS):
        job.meet(9)
    assert job.costliest() is None


def test_what_nobody_has_seen_is_named_by_the_call_that_follows():
    job = Job(2, seen=False)
    for _ in range(STEPS):
        job.compute(0, 0.1, 5)
        job.meet(9)
    assert str(job.costliest()) == (
        snapshot(
            "The other ranks waited for rank 0 (1.2 s in all, 99% of their time), which spent longer computing before train.py:9 (all_reduce) than they did."
        )
    )


def test_ranks_that_are_late_in_turn_at_one_line_are_not_named():
    job = Job(4)
    for step in range(STEPS):
        job.compute(step % 4, 0.4, 5)
        job.meet(9)
    found = job.costliest()
    assert (found.line, found.rank) == (5, None)
    assert str(found).startswith("The ranks took turns waiting for each other (")


def uneven(seed, *, missed=0.0):
    """Another rank takes much longer in each step; at which of three lines it is then seen is chance."""
    job, dice = Job(4), random.Random(seed)
    for _ in range(20):
        slow = dice.randrange(4)
        for rank in range(4):
            for _ in range(6 if rank == slow else 1):
                job.compute(rank, 0.05, dice.choice((5, 6, 7)))
        job.meet(9)
    for rank in job.ranks:
        rank.events.append(CoresMissed(job.clocks[0], rank.rank, 0, missed))
    return job.costliest()


@pytest.mark.parametrize("seed", range(20))
def test_uneven_work_in_each_step_is_told_as_that_wherever_ranks_were_seen_and_names_none(seed):
    found = uneven(seed)
    assert (found.line, found.rank, found.before) in (
        (9, None, "all_reduce"),
        (5, None, ""),
        (6, None, ""),
        (7, None, ""),
    )
    assert found.share > 0.4
    assert "The work is uneven from step to step, and no single rank is the cause" in str(found)


def test_where_cores_are_missing_ranks_that_wait_in_turn_prove_nothing():
    assert uneven(0, missed=20.0) is None


def test_a_rank_that_is_slow_at_a_line_of_its_own_is_named_although_others_are_late_in_turn_elsewhere():
    job = Job(4)
    for step in range(24):
        job.compute(step % 4, 0.25, 5)
        if step % 2:
            job.compute(2, 0.5, 20)
        job.meet(9)
    found = job.costliest()
    assert (found.line, found.rank) == (20, 2)


@pytest.mark.parametrize("form", ["joining", "forming"])
def test_a_rank_that_is_late_to_form_a_group_is_charged(form):
    job = Job(3)
    job.compute(1, 0.5, 2)
    whole = max(job.clocks)
    for rank, made in enumerate(job.ranks):
        for at, done in ((job.clocks[rank], False), (whole + LAST, True)):
            made.events.append(
                Joining(at, rank, done, 4) if form == "joining" else Forming(at, rank, done, "train.py", 4)
            )
    job.clocks = [whole + LAST] * 3
    found = job.costliest()
    assert (found.line, found.rank, found.seconds) == (2, 1, pytest.approx(1.0))


def test_while_gradients_are_reduced_beside_a_backward_pass_the_slow_one_is_charged():
    job = Job(2)
    for _ in range(STEPS):
        issued = []
        for rank in (0, 1):
            job.compute(rank, 0.3 if rank == 1 else 0.1, 5)
            more = {"bucket": 0, "asynchronous": True}
            issued.append((job.ranks[rank].issue("all_reduce", job.clocks[rank], 6, **more), job.clocks[rank]))
        done = max(job.clocks) + LAST
        for made, (number, at) in zip(job.ranks, issued, strict=True):
            made.waiting(at, number).end(done, number).wait(at, done, number)
            made.events.append(OptimizerStep(done, made.rank, 7))
        job.clocks = [done, done]
    found = job.costliest()
    assert (found.line, found.rank) == (5, 1)
    assert found.seconds == pytest.approx(STEPS * 0.2, rel=0.05)


def test_on_real_ranks_the_line_in_another_file_is_named(script, tmp_path):
    (tmp_path / "loading.py").write_text(
        "import time\n\ndef load(seconds):\n    time.sleep(seconds)\n    return seconds\n"
    )
    timeline = Timeline()
    events = run(script("import loading\nfor step in range(6):\n    loading.load(0.15 if rank == 1 else 0.01)\n"
                        "    dist.all_reduce(x)\n"), ranks=3)  # fmt: skip
    for event in events:
        timeline.add(event)
    found = find_costliest_line(timeline, end(events).time)
    assert (found.file, found.line, found.rank) == (str(tmp_path / "loading.py"), 4, 1)
    assert found.seconds > 6 * 2 * 0.1
