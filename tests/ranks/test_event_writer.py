"""Events as a rank writes them."""

import dataclasses
import os

from ddpquiz.events.event import Ended, Issued, Result, Waited, decode, encode
from ddpquiz.events.operation import Operation
from ddpquiz.ranks.inside.event_writer import EventWriter

CALL = Issued(0.123456, 3, 7, Operation("all_reduce", (0, 1), 1, ((2, 3), ()), "float32", 28, '/a "b"/é.py', 9, "0", "sum", True, 4), ("[1.0, nan]", "2"))  # fmt: skip
CALLED = [
    CALL,
    dataclasses.replace(CALL, number=8, before=(), operation=CALL.operation._replace(bucket=None)),
    dataclasses.replace(CALL, operation=CALL.operation._replace(peer=None, op="x")),
]


def test_what_is_joined_from_cached_text_is_what_encode_writes():
    writer = EventWriter(-1, 3, 0.0)
    for call in [*CALLED, *CALLED]:  # the second time from the cache
        assert writer.issued(call.time, call.number, call.before, writer.prepare(call.operation)) == encode(call) + "\n"
    others = {
        Ended(0.1, 3, 7): writer.ended(0.1, 7),
        Ended(0.1, 3, 7, 0.05): writer.ended(0.1, 7, 0.05),
        Waited(1e-05, 3, 7, 0.0): writer.waited(1e-05, 7, 0.0),
        Result(0.1, 3, 7, ("[inf]", "1")): writer.result(0.1, 7, ("[inf]", "1")),
    }
    for event, line in others.items():
        assert line == encode(event) + "\n"
        assert decode(line) == event


def test_events_are_not_written_to_a_file_that_has_got_the_number_of_our_pipe(tmp_path):
    reader, pipe = os.pipe()
    writer = EventWriter(pipe, 0, 0.0)
    writer.write("first\n")
    with (tmp_path / "data").open("w") as data:
        os.dup2(data.fileno(), pipe)
        writer._checked_at -= 1  # a while later
        writer.write("second\n")
    writer.write("third\n")
    os.close(pipe)
    assert os.read(reader, 100) == b"first\n"
    assert (tmp_path / "data").read_text() == ""
    os.close(reader)
