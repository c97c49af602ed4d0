"""A run of two ranks, drawn as text."""

import io

from rich.console import ConsoleDimensions, Group

from ddpquiz.events.event import Began, ClaimText, Issued, Output
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.runs.frame import frame, on_screen
from ddpquiz.terminal.runs.plain_lines import print_events

BEGAN = Began(
    "demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo · no GPU found",
    (ClaimText(7, "every rank holds the sum"), ClaimText(9, "the sum is 3")),
)  # fmt: skip


QUIET = Began("demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo")  # a script without claims


def said(rank, label, value):
    return Output(0.1, rank, "stdout", f"{label}: {value}", label, value)


def seen(*events, began=BEGAN):
    return RunState.after((began, *events))


def drawn(picture, width=60):
    return text(frame(describe_frame(picture), width), width)


def live(picture, now=None, width=80, height=24, since=None):
    shown = describe_frame(picture, now=picture.time if now is None else now, since=since)
    body, below = on_screen(shown, ConsoleDimensions(width, height))
    return text(Group(body, *below), width)


def text(shown, width):
    console = style.console(io.StringIO(), width=width)
    console.print(shown)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def plain(*events):
    console = style.console(io.StringIO(), width=60)
    picture = RunState()
    for event in (BEGAN, *events):
        picture.add(event)
        print_events([event], picture, console, console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def issued(time, rank, number, op="all_reduce", **more):
    fields = {"shapes": ((2, 2),), "peer": None} | more
    return Issued(
        time, rank, number, Operation(op, (0, 1), dtype="float32", bytes=16, file="demo.py", line=5, **fields)
    )


def drawn_with_tensors(picture, width):
    return text(frame(describe_frame(picture), width, tensors=True), width).splitlines()
