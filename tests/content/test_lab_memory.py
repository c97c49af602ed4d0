"""The memory that the checks of the labs measure, and what they say of code that holds too much."""

import sys

import passed
import pytest
import torch

from ddpquiz.paths import labs_dir

pytestmark = passed.ENGINE


@pytest.fixture
def live_memory(monkeypatch):
    monkeypatch.syspath_prepend(str(labs_dir()))
    import lab_tools

    yield lab_tools.LiveMemory
    del sys.modules["lab_tools"]


def test_the_peak_is_the_most_bytes_alive_at_a_time(live_memory):
    with live_memory() as memory:
        first = torch.zeros(100)
        del first
        second = torch.zeros(200)
        third = second[:50]  # a view shares the storage
    assert (memory.now, memory.peak) == (800, 800)
    del second, third
    assert memory.now == 0


def test_an_excess_counts_after_a_wait_in_vain(live_memory):
    with live_memory(limit=1000) as memory:
        kept = [torch.zeros(100) for _ in range(3)]
    assert memory.peak == 1200
    del kept


def test_once_a_wait_was_in_vain_later_objects_report_no_excess(live_memory):
    with live_memory(limit=1000):
        kept = [torch.zeros(100) for _ in range(3)]
    with live_memory(limit=1000) as later:
        also = [torch.zeros(100) for _ in range(3)]  # perhaps held by Gloo only, and later objects do not wait for it
    assert later.peak == 1000
    del kept, also
