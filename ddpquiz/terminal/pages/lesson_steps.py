"""The steps of a lesson as they are drawn: text, listing, what the ranks print, and whether all of it fits a screen."""

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ddpquiz.curriculum.concept import LessonStep, LineChange, Listing, Shows
from ddpquiz.curriculum.listing import marked_change, places_of_line
from ddpquiz.terminal.kit.layout import MEASURE, Barred, columns, indented, new_table, spaced
from ddpquiz.terminal.kit.style import code, console, plain, prose

ROWS, COLUMNS = 17, 76  # of a screen of 80 x 24, what is left to a step by the lines around it
_AROUND = 24 - ROWS  # rows of a screen that are not the step's
_MARGIN = 4  # columns at the right
_BAR = 4  # columns at the left of what was printed
_TAB = "    "
_CODE_SPAN = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
_BEGINS_BLOCK = re.compile(r"\s|[#>|=]|[-+*](\s|$)|---|\*\*\*|\d+[.)]\s|[`~]{3}")  # what makes a line more than prose
_MARK = re.compile(r"[\\<\[_`]|\*\*\*|\s\n")  # what Markdown reads inside a paragraph, and `prose` does not
_SCRIPT = re.compile(r"\bdemos/(\w+)\.py\b")
WAITS = "The ranks wait: no call ends, and no error is raised."


def framed(parts: Sequence[RenderableType]) -> RenderableType:
    """Draw parts of a step one below the other, at the width for which a step is measured."""
    return Padding(Group(*spaced(parts)), (0, _MARGIN, 0, 0))


def text_parts(step: LessonStep) -> list[RenderableType]:
    """Draw the text of a step, and its listing below it."""
    return [markdown_of(step.text), *([listing_view(step.listing.code)] if step.listing else [])]


def listing_view(source: str) -> RenderableType:
    """Draw code of a listing."""
    from ddpquiz.terminal.kit.highlight import python

    return indented(python(source))


def result_parts(printed: Mapping[int, str], then: str, *, ended: str = "") -> list[RenderableType]:
    """Draw what each rank printed, how the run ended if not well, and what that means.

    A rank that names itself in what it prints is not named once more.
    """
    named = names_itself(printed)
    rows = []
    for rank, text in printed.items():
        name = Text(f"rank {rank}", style="quiet")
        shown = code(text, "") if text else Text("prints nothing", style="quiet")
        rows.append([shown if text else Text.assemble(name, " ", shown)] if named else [name, shown])
    parts: list[RenderableType] = [output_of(columns(rows))]
    parts += [Text(plain(ended), style="bad")] if ended else []
    return [*parts, *([markdown_of(then)] if then else [])]


def names_itself(printed: Mapping[int, str]) -> bool:
    """Whether each rank that prints something names itself in each line of it."""
    return all(line.startswith(f"rank {rank}") for rank, text in printed.items() for line in text.splitlines())


def output_of(shown: RenderableType) -> RenderableType:
    """Draw what ranks printed so that it can be told from code."""
    return indented(Barred(shown, "quiet"))


def values_table(labels: Sequence[str], values: Mapping[str, Mapping[int, str]], width: int) -> RenderableType:
    """Draw what each rank of a demo printed under some labels: a row a label, or a row a rank if that is too wide."""
    ranks = sorted({rank for label in labels for rank in values.get(label, ())})
    rows = [[label, *(values.get(label, {}).get(rank, "") for rank in ranks)] for label in labels]
    rows = [[plain(cell) for cell in row] for row in [["rank", *map(str, ranks)], *rows]]
    if sum(max(map(cell_len, column)) + 2 for column in zip(*rows, strict=True)) > min(width, MEASURE) - _MARGIN - _BAR:
        rows = [list(column) for column in zip(*rows, strict=True)]
        table = new_table(rows[0], left=range(len(rows[0])))
    else:
        table = new_table(rows[0])
    for row in rows[1:]:
        table.add_row(*row)
    return output_of(table)


def changed_listing(source: str, change: LineChange) -> RenderableType:
    """Draw code of a listing with the line that changed, as it was and as it is."""
    from ddpquiz.terminal.kit.highlight import python_lines

    place = places_of_line(source, change.line)[0]
    lines = source.splitlines()
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    now = "\n".join(indent + line for line in change.to.splitlines())
    rows = [(Text(" "), line) for line in python_lines(source)]
    rows[place : place + 1] = _marked(marked_change(lines[place], now))
    return columns(rows, gap=1)


def said_of(shows: Shows, ranks: int) -> tuple[dict[int, str], str]:
    """What a listing shows by its lesson: what each rank prints, and how the run ends if not well."""
    texts = shows.by_rank or {}
    printed = {rank: texts.get(rank, shows.everywhere or "") for rank in range(ranks)}
    return printed, WAITS if shows.hangs else shows.raises or ""


def diff(change: LineChange) -> RenderableType:
    """Draw the line of a listing that changed, as it was and as it is."""
    return indented(columns(_marked(marked_change(change.line, change.to)), gap=1))


def changed_lines(before: str, after: str) -> RenderableType | None:
    """Draw the lines of a script that differ from another one; None if none does."""
    from difflib import unified_diff  # few lessons need it

    compared = unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    rows = [(line[0], line[1:]) for line in [*compared][2:] if line[0] in "-+"]  # after the names of the files
    return indented(columns(_marked(rows), gap=1)) if rows else None


def _marked(lines: Iterable[tuple[str, str]]) -> list[tuple[Text, Text]]:
    styles = {"-": ("bad", "quiet"), "+": ("good", "code"), " ": ("", "code")}
    return [(Text(mark, style=styles[mark][0]), code(line, styles[mark][1])) for mark, line in lines]


def markdown_of(text: str) -> RenderableType:
    """Draw Markdown of a lesson."""
    if (blocks := _plain_blocks(text)) is not None:
        return Group(*spaced(blocks))
    from ddpquiz.terminal.kit.markdown import markdown

    return markdown(text)


def script_notes(text: str, concept_id: str) -> list[Text]:
    """Say how to get the demos' scripts that a text runs: an installed program has no `demos/` in this folder."""
    pack = concept_id.rpartition("/")[0]
    note = "To get `demos/{0}.py`: `ddpquiz demo {1} --copy demos`"
    names = dict.fromkeys(_SCRIPT.findall(text))
    return [prose(note.format(name, f"{pack}/{name}" if pack else name), "quiet") for name in names]


def _plain_blocks(text: str) -> list[RenderableType] | None:
    """Draw the paragraphs and the indented code of a text that has nothing else, as most have; otherwise None.

    The first step of a lesson would wait for a parser of Markdown.
    """
    drawn: list[RenderableType] = []
    blocks = re.split(r"\n\n+", text.strip("\n"))
    for block, before in zip(blocks, ["", *blocks], strict=False):
        lines = block.split("\n")
        if all(line.startswith(_TAB) for line in lines):
            if before.startswith(_TAB):  # the empty line between the two belongs to the code
                return None
            drawn.append(indented(code(textwrap.dedent(block)), 4))
        elif any(map(_BEGINS_BLOCK.match, lines)) or _MARK.search(_CODE_SPAN.sub("", block)):
            return None
        else:
            drawn.append(prose(block))
    return drawn


def fits_screen(parts: Sequence[RenderableType], width: int, height: int, around: int = _AROUND) -> bool:
    """Whether parts of a step fit one screen of this size, of which `around` rows are not the step's."""
    return rows_of(parts, min(width, MEASURE) - _MARGIN) <= height - around


def fits_beside(step: LessonStep, width: int, height: int) -> bool:
    """Whether the text and the listing of a step fit one screen of this size."""
    return fits_screen(text_parts(step), width, height)


def rows_of(parts: Sequence[RenderableType], columns_: int = COLUMNS) -> int:
    """How many rows parts of a step take."""
    measure = console(io.StringIO(), width=columns_ + _MARGIN, color_system=None)
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
        yield "change", [diff(change), *result_parts(printed, change.then, ended=ended)]
