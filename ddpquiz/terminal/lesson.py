"""A concept as a page to read: why, the lesson, commands, mistakes, what to remember, and where to go from there."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ddpquiz.terminal.style import code, plain, prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from ddpquiz.curriculum.concept import Command, Concept, DemoLink, Mistake

MEASURE = 100  # columns; longer lines of prose are hard to read


def lesson(concept: Concept, *, before: Sequence[Concept] = (), after: Sequence[Concept] = ()) -> Group:
    """Draw everything there is to read about a concept; `before` is what to know first, `after` what builds on it."""
    from ddpquiz.terminal.markdown import markdown

    parts: list[RenderableType] = [
        Text(plain(concept.title), style="head"),
        Text(f"{concept.track} · {concept.id}", style="quiet"),
        Text(),
        _Barred(prose(concept.idea)),
        *_section("Why", markdown(concept.why)),
        *_section("Lesson", markdown(concept.lesson)),
    ]
    if concept.commands:
        parts += _section("Commands", *_spaced(map(_command, concept.commands)))
    parts += _section("Mistakes", *_spaced(map(_mistake, concept.mistakes)))
    parts += _section("Remember", *(_bullet(prose(line)) for line in concept.remember))
    parts += _section("See it run", *_spaced(map(_demo, concept.demos)))
    parts += _section("Next", _next(concept, before, after))
    return Group(*parts)


def _section(title: str, *body: RenderableType) -> list[RenderableType]:
    return [Text(), Text(title, style="bold accent"), *(Padding(part, (0, 0, 0, 2)) for part in body)]


def _spaced(parts: Iterable[RenderableType]) -> list[RenderableType]:
    """Put an empty line between parts."""
    return [line for part in parts for line in (Text(), part)][1:]


class _Barred:
    """A paragraph beside a bar."""

    def __init__(self, body: Text, style: str = "accent") -> None:
        self._body = body
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = Segment("│ ", console.get_style(self._style))
        for line in console.render_lines(self._body, options.update(width=options.max_width - 2), pad=False):
            yield bar
            yield from line
            yield Segment.line()


def _bullet(body: Text, mark: str = "•") -> Table:
    return _columns([(Text(mark, style="quiet"), body)])


def _columns(rows: Sequence[tuple[Text, RenderableType]], gap: int = 1) -> Table:
    """Line up short words on the left with what is said about them."""
    grid = Table.grid(padding=(0, gap, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for left, right in rows:
        grid.add_row(left, right)
    return grid


def _command(command: Command) -> Group:
    parts: list[RenderableType] = [
        _columns([(Text("$", style="quiet"), code(command.run))]),
        Padding(prose(command.does), (0, 0, 0, 2)),
    ]
    if command.flags:
        rows = [(Text(plain(flag), style="code"), prose(meaning)) for flag, meaning in command.flags.items()]
        parts.append(Padding(_columns(rows, gap=2), (0, 0, 0, 4)))
    if command.prints:
        parts += [
            Text("  prints", style="quiet"),
            Padding(_Barred(Text(plain(command.prints).rstrip()), "quiet"), (0, 0, 0, 2)),
        ]
    return Group(*parts)


def _mistake(mistake: Mistake) -> Table:
    return _columns(
        [
            (Text("wrong", style="bad"), prose(mistake.do)),
            (Text("then", style="quiet"), prose(mistake.happens)),
            (Text("instead", style="good"), prose(mistake.instead)),
        ],
        gap=2,
    )


def _demo(link: DemoLink) -> Group:
    parts: list[RenderableType] = [Text(demo_command(link), style="code"), Padding(prose(link.look), (0, 0, 0, 2))]
    if link.predict:
        parts.append(Text("  It asks you first what you expect.", style="quiet"))
    return Group(*parts)


def demo_command(link: DemoLink) -> str:
    """Write the command that runs a demo as a concept means it."""
    words = ["ddpquiz", "demo", link.run]
    words += ["--nproc", str(link.ranks)] if link.ranks else []
    words += ["--", *link.args] if link.args else []
    return plain(shlex.join(words))


def _next(concept: Concept, before: Sequence[Concept], after: Sequence[Concept]) -> Table:
    levels = Counter(question.level.value for question in concept.questions)
    counts = ", ".join(f"{count} {level}" for level, count in levels.items())
    rows = [
        (f"ddpquiz study {concept.id}", f"{len(concept.cards)} cards to recall"),
        (f"ddpquiz test {concept.id}", f"{len(concept.questions)} questions: {counts}"),
        *((f"ddpquiz learn {other.id}", f"before this: {other.title}") for other in before),
        *((f"ddpquiz learn {other.id}", f"builds on this: {other.title}") for other in after),
    ]
    return _columns([(Text(plain(command), style="code"), Text(plain(what))) for command, what in rows], gap=2)
