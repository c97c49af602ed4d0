"""The page of a long run: its size, the time to make it, and in a browser the time to open it and to step.

    python benchmarks/page.py [--operations 10000] [--ranks 2]

The run all-reduces small tensors and prints a loss in each step. It needs Chromium.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from ddpquiz.cli.saving import page_of
from ddpquiz.events.event import Began, End, Ended, Event, Issued, Output, Result, Started
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 200  # that are timed


def long_run(operations: int, ranks: int) -> Iterator[Event]:
    """Yield the events of a training loop whose ranks arrive at different times."""
    dice, everybody, now = random.Random(0), tuple(range(ranks)), 0.1
    yield Began("train.py", (), ranks, "cpu", "gloo", f"{ranks} ranks on CPU over Gloo", title="A long run")
    yield from (Started(0.01, rank, 100 + rank) for rank in everybody)
    for number in range(1, operations + 1):
        calls = {rank: now + dice.expovariate(2000) for rank in everybody}
        last = max(calls.values())
        ends = {rank: last + 2e-4 + dice.expovariate(5000) for rank in everybody}
        operation = Operation(
            "all_reduce", everybody, None, ((4,),), "float32", 16, "train.py", 7 + number % 3, "0", "sum"
        )
        events: list[Event] = []
        for rank in everybody:
            before, after = f"[{dice.random():.4f}, 2.0, 3.0, 4.0]", f"[{dice.random():.4f}, 4.0, 6.0, 8.0]"
            events.append(Issued(calls[rank], rank, number, operation, (before,)))
            events.append(Ended(ends[rank], rank, number))
            events.append(Result(ends[rank] + 1e-6, rank, number, (after,)))
            if number % 10 == 0:
                loss = f"{4 / number + dice.random() / 100:.4f}"
                events.append(Output(ends[rank] + 2e-6, rank, "stdout", f"loss: {loss}", "loss", loss))
        yield from sorted(events, key=lambda event: event.time)  # type: ignore[union-attr]
        now = max(ends.values()) + 1e-4
    yield End(now, True, 0, 0)


def timed(path: Path) -> tuple[float, float]:
    """The seconds until the page is drawn, and the median seconds of a step, with its layout."""
    program = """count => {
        const page = ddpquizPage, took = [];
        page.go(page.run.last >> 1);
        for (let at = 0; at < count; at++) {
            const began = performance.now();
            page.go(page.step + 1);
            document.body.getBoundingClientRect();
            took.push(performance.now() - began);
        }
        return took;
    }"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        opened = []
        for _ in range(3):
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]")
            opened.append(page.evaluate("ddpquizReady") / 1000)  # since the navigation began
        steps = page.evaluate(program, STEPS)
        browser.close()
    return statistics.median(opened), statistics.median(steps) / 1000


def main() -> None:
    """Make the page of a long run, and print figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--ranks", type=int, default=2)
    asked = parser.parse_args()
    events, state = list(long_run(asked.operations, asked.ranks)), RunState()
    for event in events:
        state.add(event)
    began = time.perf_counter()
    text = page_of(events, state, None)
    made = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.html"
        path.write_text(text, "utf-8")
        opened, step = timed(path)
    size = len(text.encode()) / 1e6
    print(f"{asked.operations:,} operations of {asked.ranks} ranks, {len(events):,} events")
    print(f"{size:.2f} MB, made in {made:.1f} s, opens in {opened:.2f} s, a step takes {step * 1000:.1f} ms")


if __name__ == "__main__":
    main()
