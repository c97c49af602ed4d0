"""Operations on a GPU, polled until they are done."""

import threading
import time

from ddpquiz.ranks.inside.operations import GpuPoller, Queued


def test_work_on_a_gpu_is_reported_once_when_the_gpu_is_done_with_it_and_when_it_came_to_it():
    clock = iter((1.0, 2.0, 3.0, 4.0))
    poller, reports, gpu = GpuPoller(lambda: next(clock)), [], {"begun": False, "ended": False}
    poller._thread = threading.current_thread()  # we poll ourselves
    poller.add(Queued(lambda: gpu["begun"], lambda: gpu["ended"], lambda began: reports.append(("long", began))), "one")
    poller.poll()
    gpu["begun"] = True
    poller.poll()  # at 1.0
    poller.add(Queued(lambda: False, lambda: True, lambda began: reports.append(("short", began))), "another")
    poller.poll()  # at 2.0
    assert reports == [("short", 2.0)]
    gpu["ended"] = True
    poller.poll()
    poller.poll()
    assert reports == [("short", 2.0), ("long", 1.0)]


def test_only_the_first_of_a_stream_is_queried_however_much_is_queued():
    poller, queries, reports, gpu = GpuPoller(lambda: 1.0), [], [], {"done": 0}
    poller._thread = threading.current_thread()

    def add(number):
        def has_ended():
            queries.append(number)
            return gpu["done"] > number

        poller.add(Queued(lambda: False, has_ended, lambda _: reports.append(number)), "one")

    for number in range(1000):
        add(number)
    poller.poll()
    assert queries == [0]
    gpu["done"] = 3
    poller.poll()
    assert (queries, reports) == ([0, 0, 1, 2, 3], [0, 1, 2])


def test_the_poller_polls_by_itself_until_nothing_is_left():
    poller, done = GpuPoller(time.monotonic), threading.Event()
    later = time.monotonic() + 0.05
    poller.add(Queued(lambda: True, lambda: time.monotonic() > later, lambda _: done.set()), "one")
    assert done.wait(10)
    again = threading.Event()
    poller.add(Queued(lambda: True, lambda: True, lambda _: again.set()), "one")
    assert again.wait(10)
