"""The last events of a long run, which is all that is saved of it."""

from rank_events import late_run

from ddpquiz.events.event import Began, Ended, Issued
from ddpquiz.events.operation import Operation
from ddpquiz.events.saved_run import RecentEvents
from ddpquiz.events.timeline import Timeline


def test_only_the_last_events_of_a_long_run_are_stored():
    recent = RecentEvents(limit=10)
    events = late_run()
    for event in [*events, *events[1:] * 5]:
        recent.add(event)
    assert recent.events[0] == events[0]
    assert len(recent.events) <= 21
    assert recent.events[-1] == events[-1]


def test_the_stored_events_of_a_long_run_have_no_call_without_its_partners():
    """However the cut falls: else the k-th call of a rank would be taken for the (k+1)-th of another one."""
    whole = [Began("two.py", (), 2, "cpu", "gloo", "2 ranks")]
    for number in range(1, 101):
        op = "all_reduce" if number % 2 else "broadcast"
        calls = [
            Issued(
                number + 0.1 * rank,
                rank,
                number,
                Operation(op, (0, 1), None, ((),), "float32", 4, "two.py", number % 2 + 1),
            )
            for rank in (0, 1)
        ]
        whole += [*calls, *(Ended(number + 0.5, rank, number) for rank in (0, 1))]
    for most in range(10, 30):
        recent, timeline = RecentEvents(most), Timeline()
        for event in whole:
            recent.add(event)
        for event in recent.events:
            timeline.add(event)
        assert (timeline.current(), timeline.mismatches) == ([], [])
        assert timeline.count >= most // 4 - 1
