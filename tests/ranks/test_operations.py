"""Operations on a GPU, polled until they are done."""

import subprocess
import sys
import threading
import time

import passed

from ddpquiz.ranks.inside.operations import GpuPoller, Queued

pytestmark = passed.ENGINE


def test_work_on_a_gpu_is_reported_once_when_the_gpu_is_done_with_it_and_when_it_came_to_it():
    clock = iter((1.0, 2.0, 3.0, 4.0))
    reports, gpu = [], {"begun": False, "ended": False}
    poller = GpuPoller(lambda: next(clock), lambda *lines: reports.extend(lines))
    poller._thread = threading.current_thread()  # we poll ourselves
    poller.add(Queued(lambda: gpu["begun"], lambda: gpu["ended"], lambda began: ("long", began)), "one")
    poller.poll()
    gpu["begun"] = True
    poller.poll()  # at 1.0
    poller.add(Queued(lambda: False, lambda: True, lambda began: ("short", began)), "another")
    poller.poll()  # at 2.0
    assert reports == [("short", 2.0)]
    gpu["ended"] = True
    poller.poll()
    poller.poll()
    assert reports == [("short", 2.0), ("long", 1.0)]


def test_only_the_first_of_a_stream_is_queried_however_much_is_queued():
    queries, reports, gpu = [], [], {"done": 0}
    poller = GpuPoller(lambda: 1.0, lambda *lines: reports.append(lines))
    poller._thread = threading.current_thread()

    def add(number):
        def has_ended():
            queries.append(number)
            return gpu["done"] > number

        poller.add(Queued(lambda: False, has_ended, lambda _: number), "one")

    for number in range(1000):
        add(number)
    poller.poll()
    assert queries == [0]
    gpu["done"] = 3
    poller.poll()
    assert (queries, reports) == ([0, 0, 1, 2, 3], [(0, 1, 2)])


AT_EXIT = """\
import atexit, threading
atexit.register(lambda: print([thread.name for thread in threading.enumerate()]))
from ddpquiz.ranks.inside.operations import GpuPoller, Queued
ended = []
poller = GpuPoller(lambda: 1.0, print)
poller.add(Queued(lambda: True, lambda: bool(ended), lambda began: f"began {began}"), "one")
atexit.register(ended.append, True)
"""


def test_the_poller_is_no_longer_inside_torch_when_the_interpreter_shuts_down():
    ran = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "began 1.0\n['MainThread']\n"


def test_the_poller_polls_by_itself_until_nothing_is_left():
    done = threading.Event()
    poller = GpuPoller(time.monotonic, lambda *_: None)
    later = time.monotonic() + 0.05
    poller.add(Queued(lambda: True, lambda: time.monotonic() > later, lambda _: done.set()), "one")
    assert done.wait(10)
    again = threading.Event()
    poller.add(Queued(lambda: True, lambda: True, lambda _: again.set()), "one")
    assert again.wait(10)
