"""The steps of a lesson as they are drawn: text, listing, what the ranks print, and whether all of it fits a screen."""

import io
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ddpquiz.curriculum.concept import LessonStep, LineChange, Listing, Shows
from ddpquiz.terminal.kit.layout import columns, indented, spaced
from ddpquiz.terminal.kit.style import code, console, plain

ROWS, COLUMNS = 17, 76  # of a screen of 80 x 24, what is left to a step by the lines around it
_MARGIN = 2  # columns at either side
_WAITS = "The ranks wait forever. No call ends, and no error is raised."


def framed(parts: Sequence[RenderableType]) -> RenderableType:
    """Draw parts of a step one below the other, at the width for which a step is measured."""
    return Padding(Group(*spaced(parts)), (0, _MARGIN))


def text_parts(step: LessonStep) -> list[RenderableType]:
    """Draw the text of a step, and its listing below it."""
    from ddpquiz.terminal.kit.markdown import markdown  # it loads a parser

    return [markdown(step.text), *([listing_view(step.listing.code)] if step.listing else [])]


def listing_view(source: str) -> RenderableType:
    """Draw code of a listing."""
    from ddpquiz.terminal.kit.highlight import python

    return indented(python(source))


def result_parts(
    printed: Mapping[int, str], then: str, change: LineChange | None = None, *, ended: str = ""
) -> list[RenderableType]:
    """Draw what each rank printed, how the run ended if not well, and what that means; first the line that changed."""
    from ddpquiz.terminal.kit.markdown import markdown

    rows = [(Text(f"rank {rank}", style="quiet"), code(text, "")) for rank, text in printed.items()]
    parts: list[RenderableType] = [_diff(change)] if change else []
    parts.append(indented(columns(rows)))
    parts += [Text(plain(ended), style="bad")] if ended else []
    return [*parts, *([markdown(then)] if then else [])]


def said_of(shows: Shows, ranks: int) -> tuple[dict[int, str], str]:
    """Return what a listing shows by its lesson: what each rank prints, and how the run ends if not well."""
    texts = shows.by_rank or {}
    printed = {rank: texts.get(rank, shows.everywhere or "") for rank in range(ranks)}
    return printed, _WAITS if shows.hangs else shows.raises or ""


def _diff(change: LineChange) -> RenderableType:
    before, after = Text("-", style="bad"), Text("+", style="good")
    return indented(columns([(before, code(change.line, "quiet")), (after, code(change.to))], gap=1))


def rows_of(parts: Sequence[RenderableType], columns_: int = COLUMNS) -> int:
    """Return how many rows parts of a step take."""
    measure = console(io.StringIO(), width=columns_ + 2 * _MARGIN, color_system=None)
    return len(measure.render_lines(framed(parts), pad=False))


def unfit(step: LessonStep) -> Iterator[tuple[str, str]]:
    """Yield what does not fit the screen for which steps are written: the key in the file, and what is wrong."""
    text, *listing = text_parts(step)
    for key, parts in (("text", [text]), ("run", listing)):
        if (rows := rows_of(parts) if parts else 0) > ROWS:
            yield key, f"{rows} rows; at most {ROWS} of {COLUMNS} columns fit a screen"
    if step.listing is None:
        return
    widest = max(map(cell_len, step.listing.code.splitlines()))
    if widest > (room := COLUMNS - 2):
        yield "run", f"a line of `code` has {widest} columns; at most {room} fit a screen"
    for key, parts in _results(step, step.listing):
        if (rows := rows_of(parts)) > ROWS:
            yield key, f"what the ranks print and `then` take {rows} rows; at most {ROWS} fit a screen"


def _results(step: LessonStep, listing: Listing) -> Iterator[tuple[str, list[RenderableType]]]:
    printed, ended = said_of(listing.shows, listing.ranks)
    yield "run", result_parts(printed, step.then, ended=ended)
    if change := listing.change:
        printed, ended = said_of(change.shows, listing.ranks)
        yield "change", result_parts(printed, change.then, change, ended=ended)
