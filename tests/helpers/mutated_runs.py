"""Saved runs that somebody may send: mutated at random, and put through every way in which a run is shown."""

import contextlib
import io
import json
import random
import re
import time
from xml.etree import ElementTree as ET

from rich.console import ConsoleDimensions, Group

from ddpquiz.cli import saving
from ddpquiz.errors import UserError
from ddpquiz.events import saved_run, trace
from ddpquiz.events.event import (
    Alive,
    Began,
    CalledByThread,
    CalledInHandler,
    ChangedBeforeWait,
    Claimed,
    ClaimText,
    Dropped,
    End,
    Ended,
    Exited,
    GroupsDestroyed,
    Hung,
    Issued,
    Joining,
    MemoryPeak,
    Note,
    OptimizerStep,
    Output,
    PartSample,
    Raised,
    RankStack,
    Recorded,
    ReplicaSample,
    Result,
    Started,
    TensorRead,
    UnsyncedForward,
    Waited,
    Waiting,
    encode,
)
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_steps import EventCursor, beginnings, steps
from ddpquiz.events.run_summary import summarize
from ddpquiz.safe_text import escape_controls
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.runs import replay, run_svg, summary
from ddpquiz.terminal.runs.frame import Hint, frame, on_screen
from ddpquiz.terminal.runs.plain_lines import print_saved
from ddpquiz.terminal.runs.run_screen import log
from ddpquiz.terminal.runs.script import source, suggestions, tries

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    dist.barrier()\n'
SUM = Operation("all_reduce", (0, 1), None, ((2,), ()), "float32", 12, "train.py", 7, "0", "sum")
BUCKET = SUM._replace(asynchronous=True, bucket=0, line=8)
EVERY_KIND = [
    Began(
        "train.py",
        ("--lr", "1"),
        2,
        "cpu",
        "gloo",
        "2 ranks on CPU",
        (ClaimText(9, "it holds"),),
        "A title",
        highlighted=("a",),
    ),
    Recorded(0.0, 1, "host", "boot", 5.0, 1.7e9),
    Dropped(0.0, 1, "0", (0, 1), "send", 0, 3),
    Alive(1.0, 1, "train.py", 3),
    *(Started(0.1, rank, 100 + rank) for rank in (0, 1)),
    *(Joining(0.2 + at / 9, rank, done, 3) for rank in (0, 1) for at, done in enumerate((False, True))),
    *(Output(0.4 + at / 99, rank, "stdout", f"a: {at}", "a", f"{at}.5") for at in range(9) for rank in (0, 1)),
    *(Issued(0.5, rank, 1, SUM, ("[1.0, 2.0]",)) for rank in (0, 1)),
    *(Ended(0.6, rank, 1) for rank in (0, 1)),
    *(Result(0.6, rank, 1, ("[2.0, 4.0]",)) for rank in (0, 1)),
    *(Issued(0.7, rank, 2, BUCKET) for rank in (0, 1)),
    Waiting(0.8, 0, 2),
    Waited(0.9, 0, 2, 0.8),
    *(Ended(0.9, rank, 2) for rank in (0, 1)),
    OptimizerStep(1.0, 0, 9),
    UnsyncedForward(1.0, 0, 9, 1),
    *(ReplicaSample(1.0, rank, 9, 1, 1, f"a{rank}", "train.py", "reduce") for rank in (0, 1)),
    *(PartSample(1.0, rank, 9, 1, 1, "a", 2, (0, 1), False, "all_reduce", "train.py", 7) for rank in (0, 1)),
    CalledInHandler(1.0, 1, 9, 3, "train.py", "IndexError", "out of range"),
    CalledByThread(1.0, 1, 9, "train.py", "all_reduce"),
    GroupsDestroyed(1.0, 1, 9, "train.py"),
    ChangedBeforeWait(1.0, 1, 7, "train.py", "all_reduce", "train.py", 8),
    TensorRead(1.0, 1, 9, "train.py", "item()", False),
    MemoryPeak(1.0, 1, 0, 1 << 30, 0),
    Issued(1.1, 0, 3, SUM._replace(op="send", peer=1, line=10)),
    Issued(1.2, 1, 3, SUM._replace(op="recv", peer=None, line=11)),
    Ended(1.3, 1, 3, source=0),
    Ended(1.3, 0, 3),
    Claimed(1.4, 0, 9, True),
    Note(1.4, 0, "A note."),
    Output(1.5, 1, "stderr", "an error"),
    Issued(1.6, 0, 4, SUM),
    Raised(1.7, 1, "ValueError", "bad", TRACE),
    Exited(1.8, 1, 1),
    Hung(1.9, 5.0, (RankStack(0, "all_reduce", "train.py", 7, TRACE), RankStack(1, "", "train.py", 9, TRACE))),
    End(2.0, False, 1, 1, 1, "Rank 1 raised ValueError: bad", "Mend it."),
]

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
VALUES = [
    None, True, False, -1, 0, 1, 2, 3, 7, 63, 64, 1000, 1023, 1024, 10**6, 2**31, 2**53, 2**64, 10**400, 0.5, -0.5,
    1e-320, 1e8, 1e9, 1e308, float("nan"), float("inf"), -float("inf"), "", "x", "0", "nan", "1e999", "all_reduce", "send",
    "recv", "scatter", "barrier", "broadcast", "cuda", "cpu", "step", "no_sync", "SystemExit", "loss: 1", "/dev/zero",
    "/dev/stdin", "/", "\x1b]52;c;aGk=\x07", "\x1b[2J\x1b[31mred", "\x9b31m", "\u202eabc\u2066", "a\x00b", "\ud800", "\ufffe",
    "a\nb\r\nc\td", "</text><script>&]]>{title}%s", "é數🙂\u0301", "x" * 5000, "word " * 3000, "9" * 400, [], {}, [[]], [0], [0, 0],
    [0, 1, 2, 3], [[0]], [[2**53] * 64], ["\x1b[2J"], [{"line": 1, "text": "\x1b[2J"}], list(range(1024)), [0] * 5000,
    {"a": 1}, [[2, 3], []], 'File "/x/train.py", line 99999999999, in f\n' * 50, 'File "' * 5000,
]  # fmt: skip
RAW = [
    b"\xff",
    b"\x00",
    b"[" * 100_000,
    b'{"event": ',
    b"9" * 5000,
    b"\x1b[2J",
    b"NaN",
    b'"',
    b"}",
    b"\n\n",
    b"\xe2\x80\xa8",
]


def mutated(lines, dice):
    """The lines of a saved run with one to four changes."""
    lines = list(lines)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        at = dice.randrange(len(lines))
        match dice.randrange(12):
            case 0:
                del lines[at]
            case 1:
                lines.insert(dice.randrange(len(lines)), lines[at])
            case 2:
                other = dice.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                cut = dice.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:cut] + dice.choice(RAW) + lines[at][cut + dice.randrange(3) :]
            case _:
                lines[at] = changed(lines, at, dice)
        if not lines:
            return lines
    return lines


def changed(lines, at, dice):
    """A line in which one field, at any depth, has another value."""
    try:
        event = json.loads(lines[at])
    except (ValueError, RecursionError):
        return lines[at]
    where, name = event, dice.choice([*event]) if isinstance(event, dict) and event else None
    if name is None:
        return lines[at]
    while isinstance(where[name], (dict, list)) and where[name] and dice.random() < 0.5:
        where = where[name]
        name = dice.choice([*where]) if isinstance(where, dict) else dice.randrange(len(where))
    if dice.random() < 0.3:  # of another event, so that more fits
        others = [each for each in map(parsed, dice.sample(lines, min(8, len(lines)))) if name in each]
        where[name] = others[0][name] if others else None
    elif isinstance(where, dict) and dice.random() < 0.05:
        del where[name]
    elif dice.random() < 0.1:
        where[name] = dice.uniform(0, 3)
    elif dice.random() < 0.2:
        where[name] = dice.randrange(5)
    else:
        alike = [value for value in VALUES if type(value) is type(where[name])]
        where[name] = dice.choice(alike if alike and dice.random() < 0.7 else VALUES)
    return json.dumps(event).encode()


def parsed(line):
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def shown(path, width=80):
    """Everything that is shown of a saved run, by the way in which it is; nothing if it is refused."""
    try:
        events = saved_run.read(path)
    except UserError as refused:
        return {"refused": str(refused)}
    out = {}
    console, errors = style.console(io.StringIO(), width=width), io.StringIO()
    with contextlib.redirect_stderr(errors):
        state = print_saved(events, console)
    out["plain"], out["plain, errors"] = console.file.getvalue(), errors.getvalue()
    out["json"] = "\n".join(map(encode, events))
    account = summarize(state.timeline, state.time)
    out["summary"] = drawn(summary.summary_page(account), width, show=True)
    out["summary --json"] = escape_controls(json.dumps(account.as_json(), ensure_ascii=False))
    file = io.StringIO()
    trace.write(events, file)
    json.loads(file.getvalue())
    out["trace"] = file.getvalue()
    out["svg"], out["html"] = run_svg.svg(state), saving.page_of(events, state, None)
    ET.fromstring(out["svg"])
    stops = steps(events)
    cursor = EventCursor(events)
    whole = beginnings(events, stops)
    for step in sorted({0, 1, len(stops) // 2, len(stops) - 1, *whole[:2]} & {*range(len(stops))}):
        now = cursor.seek(stops[step])
        for size in (ConsoleDimensions(width, 24), ConsoleDimensions(30, 8)):
            body, below = on_screen(describe_frame(now, since=0.0), size, tensors=True, until=events[-1].time)
            out[f"step {step} {size}"] = drawn(Group(body, *below), size.width)
            out[f"next {step} {size}"] = drawn(replay.next_step(events, stops, step, size.width), size.width)
    out["frame"] = drawn(frame(describe_frame(state), width, tensors=True, hint=Hint("x")), width)
    out["log"] = drawn(log(state, 0, width), width)
    out["source"] = drawn(source(describe_frame(state), width)[0], width)
    out["tries"] = drawn(Group(*tries(suggestions(state.began))), width)
    return out


def drawn(part, width, *, show=False):
    console = style.console(io.StringIO(), width=width)
    if show:
        layout.show(console, part)
    else:
        console.print(part)
    return console.file.getvalue()


def attack(original, path, seeds, limit=5.0):
    """What went wrong: a way of showing and why; and how many of the mutated runs were read."""
    wrong, read, slowest = [], 0, 0.0
    for seed in seeds:
        lines = mutated(original, random.Random(seed))
        path.write_bytes(b"\n".join(lines) + b"\n")
        began = time.process_time()
        try:
            out = shown(path)
        except Exception as fault:  # noqa: BLE001  # every kind of fault is looked for
            last = fault.__traceback__
            while last.tb_next:
                last = last.tb_next
            wrong.append(
                (seed, f"{type(fault).__name__}: {fault} at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}")
            )
            continue
        took = time.process_time() - began
        slowest = max(slowest, took)
        read += "refused" not in out
        if not out.get("refused", f"{path}").startswith(f"{path}"):
            wrong.append((seed, out["refused"]))
        if took > limit:
            wrong.append((seed, f"took {took:.1f} s"))
        wrong += [(seed, f"{way} holds {found[0]!r}") for way, text in out.items() if (found := CONTROL.search(text))]
    return wrong, read, slowest
