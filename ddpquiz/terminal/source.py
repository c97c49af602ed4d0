"""The script of a run, with a mark at the line of each rank."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.shipped import demos_dir
from ddpquiz.terminal.grid import Lines
from ddpquiz.terminal.layout import shown_path
from ddpquiz.terminal.running import few
from ddpquiz.terminal.style import console

if TYPE_CHECKING:
    from ddpquiz.ranks.history.seen import Seen
    from ddpquiz.terminal.grid import Piece

INSIDE, LAST, GONE = "▶", "▷", "■"
LEGEND = f"{INSIDE} waits in this line · {LAST} was last seen here · {GONE} has ended"
MARGIN = 8  # columns for the marks, at the least


def source(seen: Seen) -> Lines:
    """Draw the script with marks; of ranks that are in another file, above it, say where."""
    script = seen.began.script if seen.began else ""
    lines = _lines(script)
    marks = {line: _marks(ranks, seen) for line, ranks in _ranks_by_line(seen).items()}
    margin = max([MARGIN, *map(len, marks.values())])
    above: list[list[Piece]] = [
        [(f"rank {rank} is in {shown_path(file)}:{line}", "warn")]
        for rank, (file, line) in sorted(seen.places.items())
        if line and seen.in_script(rank) is None
    ]
    if not lines:
        above.append([(f"The script {script} cannot be read here.", "warn")])
    drawn = [
        [(marks.get(number, "").ljust(margin), "warn"), (f"{number:4} ", "head" if number in marks else "quiet"), *line]
        for number, line in enumerate(lines, 1)
    ]
    return Lines([*above, *drawn])


def current_line(seen: Seen) -> int:
    """Return the line, from 0, where most ranks are; of several, the last one."""
    at = _ranks_by_line(seen)
    return max(at, key=lambda line: (len(at[line]), line)) - 1 if at else 0


def _ranks_by_line(seen: Seen) -> dict[int, list[int]]:
    at: dict[int, list[int]] = {}
    for rank in sorted(seen.places):
        line = seen.in_script(rank)
        if line is not None:
            at.setdefault(line, []).append(rank)
    return at


def _marks(ranks: list[int], seen: Seen) -> str:
    kinds: dict[str, list[int]] = {}
    for rank in ranks:
        kind = GONE if rank in seen.exited else INSIDE if seen.waits_in(rank) else LAST
        kinds.setdefault(kind, []).append(rank)
    return " ".join(f"{kind} {few(kinds[kind])}" for kind in (INSIDE, LAST, GONE) if kind in kinds)


def _lines(script: str) -> list[list[Piece]]:
    """Return the lines of a script in colours, or none if it is not here; the demos of saved runs came with us."""
    for path in (Path(script), demos_dir() / Path(script).name):
        try:
            return _drawn(path, path.stat().st_mtime_ns)
        except (OSError, UnicodeDecodeError):
            continue
    return []


@lru_cache(1)
def _drawn(path: Path, changed: int) -> list[list[Piece]]:
    """Return a file's lines, read again once it has `changed`."""
    del changed
    from ddpquiz.terminal.highlight import python

    lines = python(path.read_text(encoding="utf-8")).split("\n", allow_blank=True)
    return [[(piece.text, piece.style or "") for piece in line.render(console())] for line in lines]
