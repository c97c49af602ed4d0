"""Lines and operations of a rank in the order in which they happened."""

import time

import passed
import pytest
from real_run import HEAD, end, of, run

from ddpquiz.events.event import Issued, Output
from ddpquiz.ranks import server_connection
from ddpquiz.ranks.event_reader import OutputOrder
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE


def test_lines_and_operations_come_in_their_order_however_late_they_are_read(script):
    body = """
    dist.barrier()
    for number in range(5):
        print("line:", number)
        dist.all_reduce(torch.ones(1))
        sys.stdout.write("half ")
        os.write(2, b"not told\\n")
        print("a line", file=sys.stderr)
        print("line")
    """
    going = Run(Request(script(body), ranks=2, device="cpu", timeout=10.0))
    events = []
    while not going.over:
        events += going.read(0.1)
        time.sleep(0.3)
    for rank in (0, 1):
        own = [event for event in events if isinstance(event, Issued | Output) and event.rank == rank]
        own = [event for event in own if not (isinstance(event, Output) and event.stream == "stderr")]
        order = [event.operation.op if isinstance(event, Issued) else event.text for event in own]
        assert order[1:] == [each for number in range(5) for each in (f"line: {number}", "all_reduce", "half line")]
        assert [event.time for event in own] == sorted(event.time for event in own)
    assert len([event for event in of(events, Output) if event.stream == "stderr"]) == 20


def test_lines_and_operations_come_in_their_order_however_fast_they_come(script):
    body = """
    for number in range(1500):
        print("line:", number)
        if number % 3 == 0:
            dist.all_reduce(x)
    """
    events = run(script(body))
    wanted = [each for number in range(1500) for each in (str(number), *["all_reduce"] * (number % 3 == 0))]
    for rank in (0, 1):
        own = [event for event in events if isinstance(event, Issued | Output) and event.rank == rank]
        assert [event.operation.op if isinstance(event, Issued) else event.value for event in own] == wanted
        assert [event.time for event in own] == sorted(event.time for event in own)


def test_lines_without_a_report_come_after_those_with_one_and_do_not_hold_them_back():
    order = OutputOrder()
    order.add_data(b"untold\nhello\n", 1.0)
    assert list(order.lines(0.0)) == []
    order.add_report(0.9, 6)
    assert list(order.lines(0.5)) == []  # which of them is meant?
    assert list(order.lines(1.1)) == [(b"untold", 1.0), (b"hello", 0.9)]
    order.add_data(b"a\nb\n", 2.0)  # of what takes long to write
    assert list(order.lines(3.0)) == [(b"a", 2.0), (b"b", 2.0)]
    order.add_data(b"c\nend\n", 4.0)
    order.add_report(1.9, 6)
    assert list(order.lines(0.0)) == [(b"c", 1.9)]
    order.add_report(4.5, 4)
    assert list(order.lines(0.0)) == [(b"end", 4.5)]


def test_standard_streams_atexit_and_threads_end_as_python_ends_them(script):
    body = """
    import atexit, threading
    atexit.register(lambda: print("atexit"))
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    print("error", file=sys.stderr)
    print("no newline", end="")
    """
    events = run(script(body), ranks=1)
    assert [(event.stream, event.text) for event in of(events, Output)] == [
        ("stderr", "error"),
        ("stdout", "no newlinethread"),
        ("stdout", "atexit"),
    ]


def test_finalizers_of_the_script_run_at_its_end_and_those_of_torch_do_not(script):
    body = """
    import weakref
    class Thing: pass
    thing = Thing()
    weakref.finalize(thing, print, "finalized")
    print([each.peek()[1].__module__ for each in weakref.finalize._registry if each.atexit])
    """
    assert [(o.stream, o.text) for o in of(run(script(body), 1), Output)] == [
        ("stdout", "['builtins']"),
        ("stdout", "finalized"),
    ]


@pytest.mark.parametrize("silence", ["sys.stdout = None", "sys.stdout.close()", "del sys.stdout"])
def test_a_rank_that_silences_itself_ends_well(script, silence):
    events = run(script(f"print('said')\nif rank:\n    {silence}"))
    assert [event.text for event in of(events, Output)] == ["said", "said"]
    assert end(events).ok


def test_what_is_written_to_the_streams_that_python_began_with_comes_line_by_line(script, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    server_connection.close()  # its server is to start without it
    body = """
    import io
    sys.stdout = io.StringIO()
    sys.__stdout__.write("line\\n")
    time.sleep(0.5)
    sys.__stdout__.write("no newline")
    """
    first, second = of(run(script(body, "import sys, time"), ranks=1), Output)
    assert (first.text, second.text) == ("line", "no newline")
    assert second.time - first.time > 0.4


def test_a_progress_bar_is_one_line_that_shows_its_end(script):
    events = run(script("print('10%', '50%', '100%', sep='\\r', file=sys.stderr)"), ranks=1)
    assert [event.text for event in of(events, Output)] == ["100%"]


def test_what_gloo_of_torch_2_9_prints_when_a_group_forms_is_no_output_of_the_script(script):
    line = "[Gloo] Rank 1 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3"
    body = f"""
        import os
        os.write(1, {(line + chr(10)).encode()!r})  # as C++ does, past sys.stdout
        for number in range(3):
            print("number", number, flush=True)
            dist.barrier()
    """
    events = run(script(body, head=HEAD), ranks=1)
    made = [
        event.text if isinstance(event, Output) else "barrier" for event in events if isinstance(event, Output | Issued)
    ]
    assert made == ["number 0", "barrier", "number 1", "barrier", "number 2", "barrier"]
