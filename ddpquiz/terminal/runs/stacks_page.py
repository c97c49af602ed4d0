"""Where the threads of running ranks are, as a page."""

from collections.abc import Collection, Iterable, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.events.formatting import format_place
from ddpquiz.events.source_text import Frame, source_line
from ddpquiz.ranks.process_stacks import ProcessStacks
from ddpquiz.terminal.kit.style import plain


def stacks_page(processes: Iterable[ProcessStacks], ranks: Mapping[int, int]) -> RenderableType:
    """Draw each process with its threads; a rank's children come after it. `ranks` are those of processes."""
    parts: list[RenderableType] = []
    seen: set[int | None] = set()
    for process in processes:
        head = Text(f"{_name(process, ranks, seen)}process {process.pid}", style="bold")
        seen.add(process.rank)
        parts += [Text()] * bool(parts) + [head.append(f": {process.why}" if process.why else "", style="not bold")]
        for number, frames in enumerate(process.threads):
            parts += [Text("  main thread" if number == 0 else f"  thread {number + 1}"), _frames(frames)]
    return Group(*parts)


def _name(process: ProcessStacks, ranks: Mapping[int, int], seen: Collection[int | None]) -> str:
    """What a process is, before its number; a rank comes before its children."""
    if process.rank is None:
        return f"rank {ranks[process.pid]}, " if process.pid in ranks else "a child, " if seen else ""
    return f"a child of rank {process.rank}, " if process.rank in seen else f"rank {process.rank}, "


def _frames(frames: Iterable[Frame]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for frame in frames:
        code = Text(plain(source_line(frame.file, frame.line).strip()), "quiet", no_wrap=True, overflow="ellipsis")
        place = Text(plain(format_place(frame.file, frame.line)))
        table.add_row("   ", place, Text(plain(frame.name)), code)
    return table
