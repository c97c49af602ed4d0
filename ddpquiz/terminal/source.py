"""The script of a run, with a mark at the line of each rank."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

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
NUMBER = 5  # columns for the number of a line
HANGS = 4  # columns by which the rest of a folded line stands further right than its start


def source(seen: Seen, width: int) -> tuple[Lines, int]:
    """Draw the script with marks, and say which line, from 0, to look at: the first one once all has gone well.

    Before that it is the line where most ranks are. Of ranks that are in another file, it is said above where.
    """
    script = seen.began.script if seen.began else ""
    marks = {line: _marks(ranks, seen) for line, ranks in _ranks_by_line(seen).items()}
    margin = max([MARGIN, *map(len, marks.values())])
    above: list[list[Piece]] = [
        [(f"rank {rank} is in {shown_path(file)}:{line}", "warn")]
        for rank, (file, line) in sorted(seen.places.items())
        if line and seen.in_script(rank) is None
    ]
    lines = _lines(script, width - margin - NUMBER)
    if not lines:
        above.append([(f"The script {script} cannot be read here.", "warn")])
    drawn, current, look_at = above, _current(seen), 0
    for number, parts in enumerate(lines, 1):
        look_at = len(drawn) if number == current else look_at
        style = "head" if number in marks else "quiet"
        margins: list[Piece] = [(marks.get(number, "").ljust(margin), "warn"), (f"{number:4} ", style)]
        drawn.append([*margins, *parts[0]])
        drawn += [[(" " * (margin + NUMBER), ""), *part] for part in parts[1:]]
    return Lines(drawn), 0 if seen.end and seen.end.ok else look_at


def script_text(script: str) -> tuple[Path, str] | None:
    """Return where a script is and its text, if it is here; the demos of saved runs came with us."""
    for path in (Path(script), demos_dir() / Path(script).name):
        try:
            return path, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _current(seen: Seen) -> int:
    """Return the line where most ranks are; of several, the last one."""
    at = _ranks_by_line(seen)
    return max(at, key=lambda line: (len(at[line]), line), default=0)


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
        kind = GONE if rank in seen.exited else INSIDE if seen.held_in(rank) else LAST
        kinds.setdefault(kind, []).append(rank)
    return " ".join(f"{kind} {few(kinds[kind])}" for kind in (INSIDE, LAST, GONE) if kind in kinds)


def _lines(script: str, width: int) -> list[list[list[Piece]]]:
    """Return the lines of a script in colours, each folded to a width; none if it is not here."""
    found = script_text(script)
    return _drawn(found[1], width) if found else []


@lru_cache(1)
def _drawn(text: str, width: int) -> list[list[list[Piece]]]:
    from ddpquiz.terminal.highlight import python

    return [
        [[(piece.text, piece.style or "") for piece in part.render(console())] for part in _folded(line, width)]
        for line in python(text).split("\n", allow_blank=True)
    ]


def _folded(line: Text, width: int) -> list[Text]:
    """Fold a line of code or of a docstring between words; its rest hangs below its start."""
    if line.cell_len <= width:
        return [line]
    first = line.wrap(console(), width)[0]
    rest = line[len(first.plain) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
    hang = " " * min(len(line.plain) - len(line.plain.lstrip()) + HANGS, width // 2)
    return [first, *(Text(hang).append_text(part) for part in rest.wrap(console(), width - len(hang)))]
