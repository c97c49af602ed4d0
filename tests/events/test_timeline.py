"""The fold of events into collectives across ranks and the time of each rank."""

import dataclasses
from itertools import pairwise

import passed
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_events import Rank, began, folded

from ddpquiz.events.event import End, Exited, Hung, Joining, ObjectsSent, Raised, StoreWaiting, Waiting
from ddpquiz.events.timeline import Timeline

pytestmark = passed.ENGINE


def spans(timeline, rank, now):
    return [(span.kind, span.start, span.end) for span in timeline.spans(rank, now)]


def test_a_rank_that_waits_for_what_ran_beside_it_is_seen_to_wait_before_it_is_done():
    early, late = Rank(0), Rank(1)
    early.events.append(Waiting(3, 0, early.issue("all_reduce", 1, asynchronous=True)))
    timeline = folded(early, late)
    assert spans(timeline, 0, 5) == [("compute", 0, 3), ("waiting", 3, 5)]
    late.sync("all_reduce", 4, 6)
    early.end(6).wait(3, 6, 1)
    timeline = folded(early, late)
    assert spans(timeline, 0, 7) == [("compute", 0, 3), ("waiting", 3, 4), ("communication", 4, 6), ("compute", 6, 7)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failed_operation_holds_no_rank_up_any_more(asynchronous):
    early, late = Rank(0), Rank(1)
    number = early.issue("all_reduce", 1, asynchronous=asynchronous)
    if asynchronous:
        early.events.append(Waiting(1, 0, number))
    early.end(4, failed=True)
    timeline = folded(early, late)
    assert spans(timeline, 0, 6) == [("compute", 0, 1), ("waiting", 1, 4), ("compute", 4, 6)]
    assert timeline.current() == []
    timeline.add(Exited(7, 1, 0))
    assert [each.kind for each in timeline.mismatches] == ["missing"]


def test_an_operation_to_which_all_came_and_which_failed_was_never_at_work():
    early, late = Rank(0), Rank(1)
    early.issue("all_reduce", 1)
    early.end(4, failed=True)
    late.issue("all_reduce", 2)
    late.end(5, failed=True)
    timeline = folded(early, late)
    assert spans(timeline, 0, 6) == [("compute", 0, 1), ("waiting", 1, 4), ("compute", 4, 6)]
    assert spans(timeline, 1, 6) == [("compute", 0, 2), ("waiting", 2, 5), ("compute", 5, 6)]


def test_a_rank_waits_until_the_last_one_has_entered_and_then_communicates():
    early = Rank(0).sync("all_reduce", 1, 5).exit(6)
    late = Rank(1).sync("all_reduce", 4, 5.5).exit(6)
    timeline = folded(early, late, end=6)
    assert spans(timeline, 0, 6) == [
        ("compute", 0, 1), ("waiting", 1, 4), ("communication", 4, 5), ("compute", 5, 6),
    ]  # fmt: skip
    assert spans(timeline, 1, 6) == [("compute", 0, 4), ("communication", 4, 5.5), ("compute", 5.5, 6)]
    (collective,) = timeline.collectives
    assert (collective.entered_last, collective.started, collective.ended) == (1, 4, 5.5)
    assert collective.waits == {0: 3, 1: 0}
    assert timeline.costs.late[1] == type(timeline.costs.late[1])(count=1, lost=3)
    assert timeline.current() == []


def test_an_open_collective_names_the_ranks_it_waits_for_and_grows_while_it_lasts():
    early, late = Rank(0), Rank(1)
    early.issue("all_reduce", 1)
    timeline = folded(early, late)
    (collective,) = timeline.current()
    assert (collective.arrived, collective.awaited, collective.complete) == ((0,), (1,), False)
    assert spans(timeline, 0, 3) == [("compute", 0, 1), ("waiting", 1, 3)]
    assert timeline.totals(4)[0].waiting == 3
    assert spans(timeline, 1, 3) == [("compute", 0, 3)]


def test_an_asynchronous_call_holds_up_only_while_it_is_waited_for():
    both = []
    for rank in range(2):
        both.append(Rank(rank))
        number = both[-1].issue("all_reduce", 1, asynchronous=True)
        both[-1].end(4).wait(3, 4, number).exit(5)
    timeline = folded(*both, end=5)
    assert spans(timeline, 0, 5) == [("compute", 0, 3), ("communication", 3, 4), ("compute", 4, 5)]
    assert timeline.totals(5)[0].overlapped == 2  # from 1 to 3, beside computing


def test_overlapping_operations_are_counted_once():
    only = Rank(0, 1)
    first, second = only.issue("all_reduce", 1, asynchronous=True), only.issue("all_reduce", 2, asynchronous=True)
    only.end(4, first).end(5, second).wait(5.5, 6, second).exit(7)
    timeline = folded(only, end=7)
    assert timeline.totals(7)[0].overlapped == 4
    assert timeline.totals(7)[0].communication == 0.5


def test_buckets_overlap_with_backward_until_it_has_only_them_left():
    only = Rank(0, 1)
    first = only.issue("all_reduce", 1, bucket=0, asynchronous=True)
    second = only.issue("all_reduce", 3, bucket=1, asynchronous=True)
    only.end(3.5, first).end(5, second).wait(4, 5, second).exit(6)
    timeline = folded(only, end=6)
    assert spans(timeline, 0, 6) == [("compute", 0, 4), ("communication", 4, 5), ("compute", 5, 6)]
    assert timeline.totals(6)[0].overlapped == 3


def test_a_root_that_leaves_before_the_others_come_did_not_wait_for_them():
    root = Rank(0).sync("broadcast", 1, 2, peer=0).exit(6)
    other = Rank(1).sync("broadcast", 4, 5, peer=0).exit(6)
    timeline = folded(root, other, end=6)
    assert spans(timeline, 0, 6)[1] == ("communication", 1, 2)
    assert timeline.collectives[0].waits == {0: 0, 1: 0}


def test_ranks_in_different_operations_wait_although_all_have_entered():
    first, second = Rank(0).sync("all_reduce", 1, 2).sync("barrier", 3, 4), Rank(1).sync("all_reduce", 1, 2)
    second.issue("broadcast", 3, peer=0)
    first.events.pop()  # nobody leaves
    timeline = folded(first, second, end=9, hung=Hung(8.0, 5.0))
    for rank in (0, 1):
        assert spans(timeline, rank, 9)[-1] == ("waiting", 3, 8)  # and not until the end: ranks are stopped then


def test_what_a_rank_does_after_it_failed_is_no_part_of_the_run():
    rank = Rank(0, 1)
    rank.events += [Raised(2, 0, "ValueError", "why", "")]
    timeline = folded(rank.exit(5, status=1), end=5)
    assert spans(timeline, 0, 5) == [("compute", 0, 2)]


def test_the_time_in_which_a_rank_joins_the_others_is_waiting():
    rank = Rank(0, 1)
    rank.events += [Joining(1, 0, False, 3), Joining(2.5, 0, True, 3)]
    timeline = folded(rank.exit(3), end=3)
    assert spans(timeline, 0, 3) == [("compute", 0, 1), ("waiting", 1, 2.5), ("compute", 2.5, 3)]
    assert timeline.spans(0, 3)[1].op == "init_process_group"


def test_a_call_with_objects_communicates_while_it_pickles_and_waits_inside_its_collectives():
    early, late = Rank(0), Rank(1)
    for rank, entered, called in ((early, 1, 2), (late, 1, 5)):
        rank.events.append(ObjectsSent(entered, rank.rank, False, "all_gather_object", "train.py", 7))
        rank.sync("all_gather", called, 6, line=7)
        rank.events.append(ObjectsSent(8, rank.rank, True, "all_gather_object", "train.py", 7))
        rank.exit(9)
    timeline = folded(early, late, end=9)
    assert spans(timeline, 0, 9) == [
        ("compute", 0, 1), ("communication", 1, 2), ("waiting", 2, 5), ("communication", 5, 6),
        ("communication", 6, 8), ("compute", 8, 9),
    ]  # fmt: skip
    totals = timeline.totals(9)[1]
    assert (totals.compute, totals.communication, totals.waiting) == (2, 7, 0)
    pickling = timeline.costs.lines["train.py", 7, "pickling"]
    assert (pickling.calls, pickling.seconds, pickling.waiting) == (2, 3 + 6, 0)


def test_a_call_with_objects_that_goes_on_is_communication_up_to_now():
    rank = Rank(0, 1)
    rank.events.append(ObjectsSent(1, 0, False, "all_gather_object", "train.py", 7))
    assert spans(folded(rank), 0, 4) == [("compute", 0, 1), ("communication", 1, 4)]


def test_the_time_in_which_a_rank_waits_for_a_key_of_a_store_is_waiting():
    rank = Rank(0, 1)
    rank.events += [
        StoreWaiting(at, 0, done, "store.get", ("k",), "train.py", 3) for at, done in ((1, False), (4, True))
    ]
    timeline = folded(rank.exit(5), end=5)
    assert spans(timeline, 0, 5) == [("compute", 0, 1), ("waiting", 1, 4), ("compute", 4, 5)]


def test_who_leaves_a_broadcast_before_the_last_one_has_entered_waited_for_its_root():
    root, early, late = Rank(0, 3), Rank(1, 3), Rank(2, 3)
    root.sync("broadcast", 4, 5, peer=0).exit(9)
    early.sync("broadcast", 1, 6, peer=0).exit(9)
    late.sync("broadcast", 7, 8, peer=0).exit(9)
    timeline = folded(root, early, late, end=9)
    assert spans(timeline, 1, 9) == [("compute", 0, 1), ("waiting", 1, 4), ("communication", 4, 6), ("compute", 6, 9)]
    assert spans(timeline, 0, 9) == [("compute", 0, 4), ("communication", 4, 5), ("compute", 5, 9)]


def test_on_a_gpu_its_own_times_count_and_the_first_call_of_a_group_connects_its_members():
    early, late = Rank(0), Rank(1)
    for rank, called, ready, second in ((early, 1, 3.5, 5), (late, 2, 3, 7)):
        rank.issue("all_reduce", called)
        rank.end(4, started=ready)
        rank.issue("all_reduce", 4.5)
        rank.end(8, started=second).exit(9)
    timeline = folded(early, late, end=9, device="cuda")
    assert spans(timeline, 0, 9) == [
        ("compute", 0, 1), ("waiting", 1, 3.5), ("communication", 3.5, 4),
        ("compute", 4, 5), ("waiting", 5, 7), ("communication", 7, 8), ("compute", 8, 9),
    ]  # fmt: skip
    assert spans(timeline, 1, 9)[:3] == [("compute", 0, 2), ("waiting", 2, 3.5), ("communication", 3.5, 4)]
    assert timeline.costs.late[1].lost == 2


def test_the_calls_of_a_group_are_counted_apart_from_those_of_another_with_the_same_members():
    one, other = Rank(0), Rank(1)
    one.sync("all_reduce", 1, 2, group="a").sync("barrier", 3, 4, group="b")
    other.sync("all_reduce", 1, 2, group="a").sync("barrier", 3, 4, group="b")
    timeline = folded(one, other)
    assert [(each.op, each.group, each.index) for each in timeline.collectives] == [
        ("all_reduce", "a", 0),
        ("barrier", "b", 0),
    ]


def test_a_subgroup_awaits_its_members_only():
    ranks = [Rank(rank, 4) for rank in range(4)]
    for rank in (0, 2):
        ranks[rank].sync("all_reduce", 1 + rank, 4, members=(0, 2), group="even")
    timeline = folded(*ranks)
    (collective,) = timeline.collectives
    assert (collective.members, collective.started, collective.waits) == ((0, 2), 3, {0: 2, 2: 0})


def test_sends_match_receives_in_order_whichever_is_reported_first():
    one, other = Rank(0), Rank(1)
    one.sync("send", 1, 5, peer=1, line=10).sync("send", 6, 7, peer=1, line=11)
    other.sync("recv", 4, 5, peer=0, line=20).sync("recv", 5, 7, peer=0, line=21)
    timeline = folded(one, other)
    met = [
        (each.op, each.calls[0].operation.line, each.calls[1].operation.line, each.entered_last)
        for each in timeline.collectives
    ]
    assert met == [("send", 10, 20, 1), ("send", 11, 21, 0)]
    assert timeline.current() == []


@pytest.mark.parametrize("told_first", [0, 1])
def test_a_receive_from_any_rank_matches_its_send_once_its_source_is_reported(told_first):
    one, other = Rank(0), Rank(1)
    one.sync("send", 1, 5, peer=1)
    other.issue("recv", 2)
    other.end(5, source=0)
    timeline = Timeline()
    timeline.add(began(2))
    for rank in (one, other) if told_first == 0 else (other, one):
        for event in rank.events:
            timeline.add(event)
    (collective,) = timeline.collectives
    assert (collective.members, collective.started, collective.complete) == ((0, 1), 2, True)
    assert (timeline.current(), timeline.mismatches, timeline.count) == ([], [], 1)


@pytest.mark.parametrize("told_first", [0, 1])
def test_a_receive_from_any_rank_waits_for_the_sender(told_first):
    one, other = Rank(0).sync("send", 4, 5, peer=1), Rank(1)
    other.issue("recv", 2)
    other.end(5, source=0).sync("recv", 6, 7, peer=0)
    one.sync("send", 6, 7, peer=1)
    timeline = Timeline()
    for rank in (one, other) if told_first == 0 else (other, one):
        for event in rank.events:
            timeline.add(event)
    assert spans(timeline, 1, 7) == [
        ("compute", 0, 2), ("waiting", 2, 4), ("communication", 4, 5), ("compute", 5, 6), ("communication", 6, 7),
    ]  # fmt: skip
    assert timeline.costs.lines["train.py", 1, "recv"].waiting == 2


def test_groups_that_are_made_again_count_from_the_start():
    one, other = Rank(0), Rank(1)
    one.issue("all_reduce", 1, asynchronous=True)  # no other rank joins it
    for rank in (one, other):
        rank.events += [Joining(2, rank.rank, False, 3), Joining(2, rank.rank, True, 3)]
        rank.sync("all_reduce", 3, 4, line=9)
    timeline = folded(one, other)
    assert [(each.arrived, each.operation.line) for each in timeline.collectives] == [((0,), 1), ((0, 1), 9)]


def test_only_the_last_collectives_are_stored_and_sums_cover_all():
    few, all_of_them = Timeline(limit=10), Timeline(limit=None)
    rank = Rank(0, 1)
    for number in range(100):
        rank.sync("all_reduce", number + 0.25, number + 0.75)
    for event in [began(1), *rank.exit(100).events, End(100, True, 0, 0)]:
        few.add(event)
        all_of_them.add(event)
    assert len(few.collectives) <= 20 < len(all_of_them.collectives)
    assert len(few.spans(0, 100)) <= 21
    assert few.totals(100) == all_of_them.totals(100)
    assert few.costs.lines == all_of_them.costs.lines
    assert few.count == all_of_them.count == 100


def test_the_merged_spans_of_a_long_run_reach_back_to_its_start_with_the_same_seconds():
    timeline, rank = Timeline(limit=30), Rank(0, 1)
    for number in range(1000):
        rank.sync("all_reduce", number + (0.25 if number < 500 else 0.5), number + 1)
    for event in [began(1), *rank.exit(1001).events]:
        timeline.add(event)
    laid = timeline.spans(0, 1001)
    assert len(laid) <= 80
    assert (laid[0].start, laid[-1].end) == (0, 1001)
    assert all(one.end == other.start for one, other in pairwise(laid))
    for kind, seconds in (("compute", 376), ("communication", 625)):
        assert sum(span.end - span.start for span in laid if span.kind == kind) == pytest.approx(seconds)
    early = sum(min(span.end, 500) - span.start for span in laid if span.kind == "communication" and span.start < 500)
    assert early == pytest.approx(375, rel=0.1)  # the shares of each stretch of time are its own


# Properties of programs that run by a simulated clock.

CALLS = st.tuples(
    st.sampled_from(["sync", "async", "send", "sub"]),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),  # what each rank computes before
    st.integers(1, 5),  # what it takes once all are there
)


def played(calls):
    """Return the events of three ranks that make these calls, and how long each waited in synchronous ones."""
    ranks, clock, waited, open_calls = [Rank(rank, 3) for rank in range(3)], [0.0] * 3, [0.0] * 3, []
    for line, (kind, computes, takes) in enumerate(calls, 1):
        if kind == "async":
            for rank in range(3):
                clock[rank] += computes[rank]
            done = max(clock) + takes
            for rank in range(3):
                number = ranks[rank].issue("all_reduce", clock[rank], line, asynchronous=True)
                open_calls.append((rank, number, done))
            continue
        members = {"sync": (0, 1, 2), "sub": (0, 2), "send": (1, 2)}[kind]
        for rank in members:
            clock[rank] += computes[rank]
        entered = max(clock[rank] for rank in members)
        for at, rank in enumerate(members):
            op, more = "all_reduce", {"members": members, "group": kind}
            if kind == "send":
                op, more = ("send", {"peer": 2}) if at == 0 else ("recv", {"peer": 1})
            waited[rank] += entered - clock[rank]
            ranks[rank].sync(op, clock[rank], entered + takes, line, **more)
            clock[rank] = entered + takes
    for rank, number, done in open_calls:
        since, clock[rank] = clock[rank], max(clock[rank], done)
        ranks[rank].end(clock[rank], number)
        if clock[rank] > since:
            ranks[rank].wait(since, clock[rank], number)
    for rank in range(3):
        ranks[rank].exit(clock[rank] + 1)
    return ranks, waited, max(clock) + 1


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=8), st.randoms(use_true_random=False))
def test_any_interleaving_of_the_ranks_gives_the_same_timeline(calls, dice):
    ranks, _, end = played(calls)
    shuffled, streams = [], [list(rank.events) for rank in ranks]
    while any(streams):
        shuffled.append(dice.choice([stream for stream in streams if stream]).pop(0))
    mixed = Timeline()
    for event in [began(3), *shuffled, End(end, True, 0, 0)]:
        mixed.add(event)
    in_order = folded(*ranks, end=end)

    def seen(timeline):
        by_place = {
            tuple((rank, call.number) for rank, call in sorted(each.calls.items())) for each in timeline.collectives
        }
        costs = {key: dataclasses.asdict(cost) for key, cost in timeline.costs.lines.items()}
        return (
            [timeline.spans(rank, end) for rank in range(3)], timeline.totals(end), costs,
            timeline.costs.late, timeline.costs.traffic, by_place, timeline.mismatches, timeline.current(),
        )  # fmt: skip

    assert seen(mixed) == seen(in_order)


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=8), st.floats(0, 1))
def test_the_spans_of_a_rank_are_disjoint_ordered_and_make_up_its_life(calls, part):
    ranks, waited, end = played(calls)
    timeline, now = folded(*ranks, end=end), end * part
    so_far = Timeline()
    so_far.add(began(3))
    for event in sorted(
        (event for rank in ranks for event in rank.events if event.time <= now), key=lambda event: event.time
    ):
        so_far.add(event)
    for told, at in ((timeline, end), (so_far, now)):
        for rank, totals in told.totals(at).items():
            laid = told.spans(rank, at)
            life = min(at, ranks[rank].events[-1].time)
            assert all(span.start < span.end for span in laid)
            assert all(one.end == other.start for one, other in pairwise(laid))
            assert sum(span.end - span.start for span in laid) == pytest.approx(life)
            assert totals.lifetime == pytest.approx(life)
            assert totals.overlapped <= totals.compute + 1e-9
    if not any(kind == "async" for kind, *_ in calls):
        assert [timeline.totals(end)[rank].waiting for rank in range(3)] == pytest.approx(waited)
