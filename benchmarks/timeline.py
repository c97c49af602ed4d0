"""How much it costs to follow a long run: processor time per event, memory, and the size of a saved file.

    python benchmarks/timeline.py [--collectives 100000] [--ranks 4]

The events are generated here as the recorder would write them; no ranks run. Memory is measured with tracemalloc, and
seconds are processor time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.cli.saving import Saving
from ddpquiz.events import saved_run, trace
from ddpquiz.events.event import Began, End, Ended, Exited, Issued, Started, decode, encode
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.events.saved_run import RecentEvents
from ddpquiz.events.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ddpquiz.events.event import Event


def run(collectives: int, ranks: int) -> Iterator[Event]:
    """Yield the events of a run: rounds of ten all-reduces from three lines, the ranks one after the other."""
    members = tuple(range(ranks))
    yield Began("train.py", (), ranks, "cpu", "gloo", "")
    yield from (Started(0.0, rank, 100 + rank) for rank in members)
    for number in range(1, collectives + 1):
        now, size = number * 1e-3, 1024 << number % 10
        for rank in members:
            operation = Operation(
                "all_reduce", members, None, ((size,),), "float32", 4 * size, "train.py", 10 + number % 3, "0", "sum"
            )
            yield Issued(now + rank * 1e-5, rank, number, operation)
        yield from (Ended(now + 5e-4 + rank * 1e-5, rank, number) for rank in members)
    end = (collectives + 1) * 1e-3
    yield from (Exited(end, rank, 0) for rank in members)
    yield End(end, True, 0, 0)


def timed(work: Callable[[], object]) -> float:
    """The processor seconds that `work` needs, which other work on the machine does not change."""
    began = time.process_time()
    work()
    return time.process_time() - began


def memory(work: Callable[[], object]) -> int:
    """The bytes that the result of `work` occupies."""
    tracemalloc.start()
    result = work()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del result
    return used


def folded(timeline: Timeline | RunState, events: Iterator[Event]) -> Timeline | RunState:
    for event in events:
        timeline.add(event)
    return timeline


def recent(events: Iterator[Event]) -> RecentEvents:
    last = RecentEvents()
    for event in events:
        last.add(event)
    return last


def saved(events: list[Event], path: Path) -> None:
    saving = Saving(path)
    saving.begin()
    for event in events:
        saving.add(event)
    saving.finish(RunState())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--collectives", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=4)
    args = parser.parse_args()
    count, ranks = args.collectives, args.ranks
    events = list(run(count, ranks))
    lines = [encode(event) for event in events]
    print(f"{count:,} collectives of {ranks} ranks: {len(events):,} events\n")

    def rate(what: str, seconds: float) -> None:
        print(f"{what:44} {len(events) / seconds:12,.0f} events/s {1e6 * seconds / count:8.1f} µs a collective")

    rate("decode a line", timed(lambda: [decode(line) for line in lines]))
    rate("encode an event", timed(lambda: [encode(event) for event in events]))
    rate("Timeline, limited to 2,000", timed(lambda: folded(Timeline(), iter(events))))
    rate("Timeline, unlimited", timed(lambda: folded(Timeline(limit=None), iter(events))))
    rate("RunState, with its timeline", timed(lambda: folded(RunState(), iter(events))))
    timeline = folded(Timeline(), iter(events))
    assert isinstance(timeline, Timeline)
    end = events[-1].time if isinstance(events[-1], End) else 0.0
    print(f"{'spans and totals of all ranks':44} {1e3 * timed(lambda: timeline.totals(end)):12.2f} ms")

    print()
    tenth = count // 10
    for what, work in {
        "Timeline, limited to 2,000": lambda number: folded(Timeline(), run(number, ranks)),
        "Timeline, unlimited": lambda number: folded(Timeline(limit=None), run(number, ranks)),
        "RunState, with its timeline": lambda number: folded(RunState(), run(number, ranks)),
        "the last 20,000 events": lambda number: recent(run(number, ranks)),
        "all events": lambda number: list(run(number, ranks)),
    }.items():
        few, many = memory(lambda: work(tenth)), memory(lambda: work(count))  # noqa: B023  # called at once
        growth = (many - few) / (count - tenth)
        print(f"{what:44} {few / 1e6:8.1f} MB at {tenth:,} {many / 1e6:8.1f} MB at {count:,} {growth:8.0f} bytes each")

    print()
    with tempfile.TemporaryDirectory() as folder:
        for end_of_name in (".json", ".trace.json"):
            path = Path(folder) / f"run{end_of_name}"
            seconds = timed(lambda: saved(events, path))  # noqa: B023  # called at once
            size = path.stat().st_size
            print(
                f"save {end_of_name:39} {seconds:8.2f} s {size / 1e6:10.1f} MB {size / count:8.0f} bytes a collective"
            )
        path = Path(folder) / "run.json"
        print(f"{'read .json':44} {timed(lambda: saved_run.read(path)):8.2f} s")
        print(f"{'trace without reading':44} {timed(lambda: list(trace.trace(events))):8.2f} s")


if __name__ == "__main__":
    main()
