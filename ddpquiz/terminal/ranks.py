"""A run on the screen: a column a rank, a row a label, the claims, and what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ddpquiz.ranks.events import Began, Claimed, End, Hung, Note, Output
from ddpquiz.terminal.layout import columns
from ddpquiz.terminal.style import plain, prose

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ddpquiz.ranks.events import ClaimText, Event, Standing
    from ddpquiz.ranks.seen import Seen

BARS = "▁▂▃▄▅▆▇█"
MARKS = {"proven": ("✓", "good"), "broken": ("✗", "bad"), "not reached": ("·", "quiet")}
NARROWEST = 10  # a rank's column; with less, the ranks go below each other in groups
TAIL = 12  # lines without a label that a live frame shows


def frame(seen: Seen, width: int, *, live: bool, tensors: bool = False, look: str = "") -> RenderableType:
    """Return the picture of a run: a frame of the live view, or the last one, with all lines.

    With `tensors` it shows what each rank brought to its last operation, and what that left there. `look` says what to
    look at.
    """
    parts: list[RenderableType] = [header(seen)]
    parts += [Text.assemble(("look at  ", "quiet"), prose(look))] if look else []
    parts += [Text(plain(note), style="warn") for note in seen.notes]
    parts += _tables(seen, width, live=live, tensors=tensors)
    lines = seen.lines[-TAIL:] if live else seen.lines
    parts += [_line(line) for line in lines if _matters(line, seen)]
    parts += [Text(), *_claims(seen)]
    if seen.end:
        parts += [Text(), *failure(seen), summary(seen)]
    return Group(*parts)


def header(seen: Seen) -> Text:
    """Say what this is, what runs on what, and why there."""
    if seen.began is None:
        return Text("Loading torch ...", style="accent")
    title = plain(seen.began.title) + "\n" if seen.began.title else ""
    return Text.assemble((title, "head"), (seen.began.reason, "accent"))


def torchrun(began: Began) -> str:
    """Return the command line that runs the same without us."""
    return " ".join(["torchrun", f"--nproc-per-node {began.ranks}", shown_path(began.script), *began.args])


def shown_path(file: str) -> str:
    """Return a path as short as it can be said from here."""
    path = Path(file)
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _tables(seen: Seen, width: int, *, live: bool, tensors: bool) -> list[RenderableType]:
    if not seen.rows and not live:
        return []
    first = max([6, *(len(label) for label in seen.rows)])
    first = min(first, width // 3)
    columns = max(1, min(seen.ranks or 1, (width - first - 2) // (NARROWEST + 2)))
    tables: list[RenderableType] = []
    for start in range(0, max(1, seen.ranks), columns):
        ranks = range(start, min(start + columns, seen.ranks))
        each = (width - first - 2) // max(1, len(ranks)) - 2
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(width=first, style="head", overflow="fold")
        for rank in ranks:
            table.add_column(f"rank {rank}", max_width=each, overflow="fold")
        if live:
            table.add_row(Text("doing", style="quiet"), *(Text(seen.doing(rank), style="quiet") for rank in ranks))
        if tensors:
            table.add_row(Text("brings"), *(_tensors(seen, rank) for rank in ranks))
            table.add_row(Text("gets"), *(_joined(seen.got.get(rank, ())) for rank in ranks))
        for label, values in seen.rows.items():
            table.add_row(Text(label), *(_cell(values.get(rank, []), each) for rank in ranks))
        tables += [Text(), table]
    return tables


def _tensors(seen: Seen, rank: int) -> Text:
    brought = seen.brought.get(rank)
    if brought is None or brought.before or brought.op == "recv":
        return _joined(brought.before if brought else ())
    return Text(
        " ".join("x".join(map(str, shape)) or "1" for shape in brought.shapes) + f" {brought.dtype}", style="code"
    )


def _joined(values: tuple[str, ...]) -> Text:
    return Text("\n".join(map(plain, values)), style="code") if values else Text("-", style="quiet")


def _cell(values: list[str], width: int) -> Text:
    if not values:
        return Text("-", style="quiet")
    shown = Text(plain(values[-1]))
    numbers = [number for number in map(_number, values) if number is not None]
    if len(numbers) >= 3 and len(numbers) == len(values):
        shown.append("\n" + sparkline(numbers, min(width, 16)), style="accent")
    return shown


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def sparkline(numbers: list[float], width: int) -> str:
    """Draw numbers as a line of bars, the oldest first; more than fit are thinned out."""
    if len(numbers) > width:
        numbers = [numbers[at * (len(numbers) - 1) // (width - 1)] for at in range(width)]
    finite = [number for number in numbers if abs(number) < float("inf")]
    if not finite:
        return "!" * len(numbers)
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(BARS[int((n - low) / span * 7.999)] if abs(n) < float("inf") else "!" for n in numbers)


def _matters(line: Output, seen: Seen) -> bool:
    """Leave out what other ranks complain about when one has failed, and what its own last line says again."""
    if line.stream == "stdout" or seen.end is None or seen.end.rank is None:
        return True
    return line.rank == seen.end.rank and line.text != seen.end.why


def _line(line: Output) -> Text:
    return Text.assemble((f"rank {line.rank}  ", "quiet"), plain(line.text))


def _claims(seen: Seen) -> list[RenderableType]:
    rows = _rows(seen)
    left = len(seen.verdicts()) - len(rows)
    to_come = [Text(f"{left} claim{'s' * (left != 1)} to come", style="quiet")] if left and seen.end is None else []
    return [*([columns(rows)] if rows else []), *to_come]


def _rows(seen: Seen) -> list[tuple[Text, Text]]:
    """Return verdicts and claims; what this run did not claim is named once it has ended well."""
    ended_well = seen.end is not None and seen.end.ok
    return [_claim(*each, seen.ranks) for each in seen.verdicts() if ended_well or each[1] != "not reached"]


def _claim(claim: ClaimText, verdict: str, ranks: list[int], of: int) -> tuple[Text, Text]:
    mark, style = MARKS[verdict]
    match verdict:
        case "proven":
            where = f"{len(ranks)} of {of}" if len(ranks) < of else "every rank" if of > 1 else "the rank"
        case "broken":
            where = f"rank {', '.join(map(str, ranks))}"
        case _:
            where = "not this run"
    text = Text(plain(claim.text), style="quiet" if verdict == "not reached" else "")
    return Text(f"{mark} {where}", style=style), text


def failure(seen: Seen) -> list[RenderableType]:
    """Return what went wrong: the traceback of the rank that failed first, or who waits where."""
    parts: list[RenderableType] = []
    if seen.hung:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for column in ("", "waits in", "stands at"):
            table.add_column(column)
        for each in seen.hung.ranks:
            place = f"{shown_path(each.file)}:{each.line}" if each.line else "-"
            table.add_row(f"rank {each.rank}", each.waits_in or Text(_absence(each, seen), style="warn"), place)
        parts += [table, Text()]
    elif seen.end and seen.end.rank is not None:
        raised = seen.raised.get(seen.end.rank)
        if raised and raised.traceback:
            parts += [Text(f"rank {raised.rank}", style="bad"), Text(plain(raised.traceback.rstrip()))]
    return parts


def _absence(rank: Standing, seen: Seen) -> str:
    exited = seen.exited.get(rank.rank)
    if exited and seen.hung and exited.time < seen.hung.time:
        return f"nothing: it has ended with status {exited.status}"
    return "not communicating" if rank.stack else "does not answer"


def summary(seen: Seen) -> Text:
    """Return the last line of a run."""
    end = seen.end
    if end is None:
        return Text()
    claims = f" · {end.proven} of {end.claims} claims proven" if end.claims else ""
    if end.ok and end.proven < end.claims:
        claims += f", {end.claims - end.proven} about other arguments"
    seconds = f"{end.time:.2f} s"
    if end.ok:
        return Text.assemble(("done", "good"), f" in {seconds}{claims}")
    return Text.assemble((plain(end.why), "bad"), f"\nended after {seconds}{claims}")


def say(event: Event, seen: Seen, console: Console) -> None:
    """Print an event as plain lines, for a pipe or a dumb terminal."""
    match event:
        case Began():
            console.print(header(seen), soft_wrap=True)
        case Output(stream="stdout"):
            console.print(Text(f"rank {event.rank}  {plain(event.text)}"), soft_wrap=True)
        case Note():
            console.print(Text(plain(event.text)), soft_wrap=True)
        case Claimed(held=False):
            console.print(Text(f"rank {event.rank}  breaks the claim in line {event.line}"), soft_wrap=True)
        case Hung() | End():
            if isinstance(event, Hung):
                return
            rows = _rows(seen)
            width = max((len(verdict) for verdict, _ in rows), default=0)
            for verdict, claim in rows:
                verdict.pad_right(width + 2 - len(verdict))
                console.print(verdict + claim, soft_wrap=True)
            for part in failure(seen):
                console.print(part, soft_wrap=True)
            for line in seen.lines:
                if line.stream == "stderr" and _matters(line, seen):
                    console.print(_line(line), soft_wrap=True)
            console.print(summary(seen), soft_wrap=True)
