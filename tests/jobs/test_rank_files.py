"""The files of ranks, written without a job and put together: one clock, the same operations, what is not complete."""

import itertools
import subprocess
import sys
import tracemalloc

import passed
import pytest

from ddpquiz.errors import UserError
from ddpquiz.events.collective import Call, Matching
from ddpquiz.events.event import Began, Dropped, Ended, Issued, Joining, Recorded, Started, decode, encode
from ddpquiz.events.operation import Operation
from ddpquiz.events.saved_run import MAX_LINE
from ddpquiz.jobs.rank_files import UNCOMPARED, Clock, CollectiveVisit, align, read_rank_files
from ddpquiz.ranks.inside.rank_writer import RankWriter

pytestmark = passed.ENGINE

RANKS = 2
BEGAN = Began("/train.py", (), RANKS, "cpu", "gloo", "")


def operation(op="all_reduce", line=1, members=(0, 1), peer=None, group="0"):
    return Operation(op, members, peer, ((1,),), "float32", 4, "/train.py", line, group, "sum")


@pytest.fixture
def write(tmp_path):
    """Return what writes the file of a rank as its process does: `calls` are operations, or True for a new group."""

    def write(rank, calls, most=1000, restart=0, began=BEGAN):
        writer = RankWriter(tmp_path, most, began, restart)
        writer.open(rank)
        numbers = itertools.count(1)
        for call in calls:
            if call is True:
                writer.send(Joining(writer.now(), rank, done=False, line=1))
                writer.send(Joining(writer.now(), rank, done=True, line=1))
            else:
                number = next(numbers)
                writer.write(writer.issued(writer.now(), number, (), writer.prepare(call)))
                source = 1 - rank if (call.op, call.peer) == ("recv", None) else None
                writer.write(writer.ended(writer.now(), number, None, source))
        writer.close()

    return write


def lines_of(record, rank):
    return [event.operation.line for event in record.events if isinstance(event, Issued) and event.rank == rank]


def matched_lines(record):
    """Return the lines of each operation that both ranks issued, as the analysis matches them."""
    matching, pairs, calls = Matching(), [], {}
    for event in record.events:
        if isinstance(event, Joining) and not event.done:
            matching.join(event.rank)
        elif isinstance(event, Issued):
            call = Call(event.operation, event.number, event.time)
            collective, _ = matching.place(event.rank, call)
            calls[event.rank, event.number] = collective, call
            pairs.append(collective)
        elif isinstance(event, Ended) and event.source is not None:
            collective, call = calls[event.rank, event.number]
            pairs.append(matching.resolve(collective, event.rank, call, event.source) or collective)
    assert pairs
    return {tuple(call.operation.line for call in pair.calls.values()) for pair in pairs if pair.complete}


COLLECTIVES = [operation(line=line) for line in range(1, 101)]


@pytest.mark.parametrize(("most", "other"), [(10, 10), (10, 33), (33, 10), (7, 1000)])
def test_the_newest_operations_are_there_and_the_ranks_begin_with_the_same_one(most, other, write, tmp_path):
    write(0, [True, *COLLECTIVES], most)
    write(1, [True, *COLLECTIVES[:-3]], other)
    record = read_rank_files(tmp_path)
    first, second = lines_of(record, 0), lines_of(record, 1)
    assert first[-1] == 100
    assert second[-1] == 97
    assert first[0] == second[0] <= 100 - min(most, other)
    assert first == list(range(first[0], 101))
    assert all(one == two for one, two in matched_lines(record))
    assert record.notes == ("Only the newest operations of each rank are known; older ones are left out.",)
    assert len([event for event in record.events if isinstance(event, Recorded)]) == 2


def test_an_older_file_that_was_not_collected_is_done_without(write, tmp_path):
    write(0, [True, *COLLECTIVES], 10)
    write(1, [True, *COLLECTIVES], 33)
    (tmp_path / "rank-0.old.jsonl").unlink()
    record = read_rank_files(tmp_path)
    assert lines_of(record, 0) == lines_of(record, 1) == list(range(91, 101))
    assert len([event for event in record.events if isinstance(event, Joining) and event.rank == 0]) == 2


def test_sends_and_receives_are_counted_by_channel(write, tmp_path):
    others = [operation(members=(0,), group="alone", line=500)] * 40
    sends = [operation("send", line, peer=1) for line in range(1, 61)]
    receives = [operation("recv", line, peer=0 if line % 3 else None) for line in range(1, 61)]
    write(0, [True, *sends, *others], 9)
    write(1, [True, *receives], 25)
    record = read_rank_files(tmp_path)
    assert {pair for pair in matched_lines(record) if len(pair) == 2} <= {(line, line) for line in range(1, 61)}
    assert not [line for line in lines_of(record, 1) if line <= 60] or lines_of(record, 0)


def test_groups_that_were_made_again_and_restarts_are_counted_from_zero(write, tmp_path):
    again = [operation(line=line) for line in range(201, 221)]
    write(0, [True, *COLLECTIVES, True, *again], 15)
    write(1, [True, *COLLECTIVES, True, *again], 40)
    record = read_rank_files(tmp_path)
    assert all(one == two for one, two in matched_lines(record))
    write(0, [True, *again], 15, restart=1)
    write(1, [True, *again], 40, restart=1)
    record = read_rank_files(tmp_path)
    assert lines_of(record, 0)[-20:] == lines_of(record, 1)[-20:] == list(range(201, 221))
    assert [event.restart for event in record.events if isinstance(event, Started) and event.rank == 1][-1] == 1


def test_a_new_file_says_how_many_operations_of_each_channel_came_before_it_since_the_group_was_formed(tmp_path):
    writer = RankWriter(tmp_path, 3, BEGAN, 0)
    writer.open(0)
    numbers = itertools.count(1)

    def issue(op, peer=None, source=None):
        number = next(numbers)
        writer.write(writer.issued(writer.now(), number, (), writer.prepare(operation(op, peer=peer))))
        writer.write(writer.ended(writer.now(), number, None, source))

    def dropped():
        events = map(decode, (tmp_path / "rank-0.jsonl").read_text().splitlines())
        return {(event.op, event.peer): event.count for event in events if isinstance(event, Dropped)}

    issue("all_reduce")
    issue("all_reduce")
    writer.send(Joining(writer.now(), 0, done=False, line=1))
    issue("send", peer=1)
    issue("recv", source=1)  # in a new file; its source is known only now
    assert dropped() == {("send", 1): 1}
    for _ in range(3):
        issue("all_reduce")
    assert dropped() == {("send", 1): 1, ("recv", 1): 1, ("", None): 2}


def test_half_a_line_at_the_end_is_noted_and_cut_off_at_a_restart(write, tmp_path):
    for rank in range(RANKS):
        write(rank, [True, *COLLECTIVES[:2]])
    whole = read_rank_files(tmp_path).events
    path = tmp_path / "rank-1.jsonl"
    with path.open("a") as file:
        file.write('{"event": "issued", "ti')
    cut = read_rank_files(tmp_path)
    assert (cut.events, cut.cut) == (whole, (1,))
    assert cut.notes == ("The last line of rank-1.jsonl is cut off: what rank 1 did after that is not known.",)
    write(1, [True, *COLLECTIVES[:2]], restart=1)
    assert lines_of(read_rank_files(tmp_path), 1) == [1, 2, 1, 2]


BAD = {
    "no JSON": "nonsense",
    "an earlier event": '{"event": "start", "time": 0.0, "rank": 0, "pid": 1}',
    "no time": '{"event": "end"}',
    "deep nesting": "[" * 100_000,
    "many digits": f'{{"event": "ended", "number": {"9" * 10_000}}}',
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_line_is_named(what, write, tmp_path):
    write(1, [True, *COLLECTIVES[:2]])
    path = tmp_path / "rank-1.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], BAD[what], *lines[4:]]) + "\n")
    with pytest.raises(UserError, match=rf"^{path}:5: invalid event: "):
        read_rank_files(tmp_path)


def test_a_file_without_lines_is_refused_before_it_is_in_memory(tmp_path):
    path = tmp_path / "rank-0.jsonl"
    with path.open("wb") as file:
        file.truncate(8 * MAX_LINE)
    tracemalloc.start()
    with pytest.raises(UserError, match=rf"^{path}:1: invalid event: not valid JSON"):
        read_rank_files(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 6 * MAX_LINE
    tracemalloc.stop()


def test_ranks_without_a_file_are_missing_and_an_empty_folder_is_refused(write, tmp_path):
    with pytest.raises(UserError, match="holds no recorded ranks"):
        read_rank_files(tmp_path)
    write(1, [True, *COLLECTIVES[:2]])
    (tmp_path / "rank-0.jsonl").write_text("")
    assert read_rank_files(tmp_path).missing == (0,)


def test_a_file_of_an_earlier_job_is_left_out(write, tmp_path):
    write(5, [True], began=Began("/train.py", (), 8, "cpu", "gloo", ""))
    write(0, [True])
    record = read_rank_files(tmp_path)
    assert (record.ranks, record.present) == (2, (0,))
    assert record.notes == ("The folder holds files of an earlier job, which are left out: rank-5.jsonl.",)


def test_several_machines_are_put_on_one_clock_by_their_collectives(tmp_path):
    clocks = {0: (5000.0, 0.0), 1: (90_000.0, 3.25)}  # since the boot, and by which the time of day is wrong
    for rank, (boot, wrong) in clocks.items():
        events = [BEGAN, Started(0.0, rank, 1), Recorded(0.0, rank, f"node{rank}", "b", boot, 1e9 + wrong)]
        for number in range(1, 50):
            late = 0.01 if number % 2 == rank else 0.0
            events.append(Issued(number + late, rank, number, operation(line=number)))
            events.append(Ended(number + 0.0125 + 0.0001 * (number % 5) * rank, rank, number))
        (tmp_path / f"rank-{rank}.jsonl").write_text("".join(f"{encode(event)}\n" for event in events))
    record = read_rank_files(tmp_path)
    ends = {}
    for event in record.events:
        if isinstance(event, Ended):
            ends.setdefault(event.number, []).append(event.time)
    assert all(abs(one - two) < 0.0005 for one, two in ends.values())
    assert 0.0005 < record.clock_error < 0.01
    assert record.notes == ()


def test_clocks_are_compared_through_others_and_by_the_time_of_day_if_nothing_joins_them():
    a, b, c, d = (Clock(name, "boot") for name in "abcd")
    pairs = [
        [CollectiveVisit(a, 1.0, 2.0), CollectiveVisit(b, 11.1, 12.0)],
        [CollectiveVisit(b, 13.0, 14.0), CollectiveVisit(c, 103.0, 104.0)],
    ]
    found = align({a: 0.0, b: 0.0, c: 0.0, d: 7.0}, pairs)
    assert found.offsets == {a: 0.0, b: -10.0, c: -100.0, d: 7.0}
    assert found.uncompared == ("d",)
    assert found.error == pytest.approx(UNCOMPARED + 2.0)


READ = """
import resource, sys
from pathlib import Path
from ddpquiz.jobs.rank_files import read_rank_files
record = read_rank_files(Path(sys.argv[1]))
print(len(record.present), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_1024_ranks_are_read_in_1_gigabyte(write, tmp_path):
    members = tuple(range(1024))
    calls = [True, *(operation(line=line % 10, members=members) for line in range(50))]
    write(0, calls, began=Began("/train.py", (), 1024, "cpu", "gloo", ""))
    text = (tmp_path / "rank-0.jsonl").read_text()
    for rank in range(1, 1024):
        here = text.replace('"rank": 0,', f'"rank": {rank},').replace('"host": "', f'"host": "{rank // 8}')
        (tmp_path / f"rank-{rank}.jsonl").write_text(here)
    done = subprocess.run([sys.executable, "-c", READ, tmp_path], capture_output=True, text=True, check=True)
    ranks, kilobytes = map(float, done.stdout.split())
    assert ranks == 1024
    assert kilobytes < 1e6


def test_an_event_is_in_the_file_as_soon_as_it_is_written(tmp_path):
    writer = RankWriter(tmp_path, 3, BEGAN, 0)
    writer.write(writer.issued(writer.now(), 1, (), writer.prepare(operation(line=1))))  # before the rank is known
    writer.open(0)
    for number in range(1, 9):
        assert lines_of(read_rank_files(tmp_path), 0)[-1] == number
        writer.write(writer.issued(writer.now(), number + 1, (), writer.prepare(operation(line=number + 1))))
    assert {path.name for path in tmp_path.iterdir()} == {"rank-0.jsonl", "rank-0.old.jsonl"}


def test_a_signal_handler_that_communicates_while_an_event_is_written_writes_its_own_after_it(tmp_path, monkeypatch):
    writer = RankWriter(tmp_path, 3, BEGAN, 0)
    writer.open(0)
    header = RankWriter._header

    def interrupted(self, file):
        writer.write(
            writer.issued(writer.now(), 100 + file.number, (), writer.prepare(operation(line=100 + file.number)))
        )
        return header(self, file)

    monkeypatch.setattr(RankWriter, "_header", interrupted)
    for number in range(1, 6):
        writer.write(writer.issued(writer.now(), number, (), writer.prepare(operation(line=number))))
    assert lines_of(read_rank_files(tmp_path), 0) == [1, 2, 3, 4, 101, 5]
