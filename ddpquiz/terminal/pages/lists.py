"""Lists to read: the curriculum, a path, the items of a concept, search results, marked items, and demos."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog, LabTitle
from ddpquiz.curriculum.concept import Card, Concept, Item, Question
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.layout import columns, indented, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.pages.item import MARK_WORDS, asks, named, sample

if TYPE_CHECKING:  # most pages need none of them
    from ddpquiz.curriculum.demo_scripts import Demo
    from ddpquiz.curriculum.search import Hit
    from ddpquiz.learning.side_files import Timing

Marks = Mapping[str, Collection[str]]  # how the learner marked an item, by its key

_SENTENCE = re.compile(r"(?<=[.:!?])\s+|\n(?=\s|[-*#|])|\n\n+")
_BEFORE = 20  # characters shown before a word if its sentence is too long for a line
_NAMED_BY = {"hidden": ("suspend", "bury"), "flagged": ("flag",)}  # options of `ddpquiz list`
_HEAD = ("concept", "", "cards", "questions", "demos")
_NEXT = (
    ("ddpquiz demo NAME", "run it"),
    ("ddpquiz demo NAME --help", "explain it and its options"),
    ("ddpquiz demo NAME --copy .", "copy the script, to read and change it"),
    ("ddpquiz demo --replay NAME", "play a saved run, one operation at a time"),
)


class LearnedSoFar(NamedTuple):
    """How much of a concept a learner knows: how many cards were seen, and whether its lesson was read."""

    cards: int
    is_read: bool

    @property
    def mark(self) -> str:
        return "✓" if self.is_read else "▸"


def curriculum(
    catalog: Catalog,
    marks: Marks = MappingProxyType({}),
    labs: int = 0,
    learned: Mapping[str, LearnedSoFar] = MappingProxyType({}),
) -> Group:
    """Draw the core route, then the other concepts by track, with their numbers of items, and the number of labs.

    `learned` has the concepts that the learner has begun, by name.
    """
    names = [_HEAD[:2], *((concept.id, concept.title) for concept in catalog.concepts)]
    widths = [max(map(len, texts)) for texts in zip(*names, strict=True)]
    has_marks = bool(learned)

    def table(rows: Sequence[Sequence[Text]]) -> _Rows:
        return _Rows(widths, rows, has_marks=has_marks)

    head = [Text(word, style="quiet") for word in ("", *_HEAD)]
    parts: list[RenderableType] = [indented(table([head if has_marks else head[1:]]))]
    core = [("Core route, to learn first", [one for one in catalog.concepts if one.id in catalog.core])]
    others = [one for one in catalog.concepts if one.id not in catalog.core]
    tracks = [(plain(track.title), [one for one in others if one.track == track.id]) for track in catalog.tracks]
    for title, concepts in (*core, *tracks):
        if concepts:
            parts += section(title, table([_row(concept, learned) for concept in concepts]))
    totals = [
        plural(len(catalog.concepts), "concept"),
        plural(len(catalog.cards()), "card"),
        plural(sum(len(concept.questions) for concept in catalog.concepts), "question"),
        plural(len({link.run for concept in catalog.concepts for link in concept.demos}), "demo"),
        *([plural(labs, "lab")] if labs else []),
    ]
    items = (item for one in catalog.concepts for item in one.items()) if marks else ()  # building them takes time
    counts = Counter(mark for item in items for mark in marks.get(item.key, ()))
    words = " · ".join(f"{counts[kind]} {name}" for kind, name in MARK_WORDS.items() if counts[kind])
    marked_items = [Text(f"You marked: {words}")] if words else []
    names_them = [f"--{option}" for option, kinds in _NAMED_BY.items() if any(counts[kind] for kind in kinds)]
    commands = [f"ddpquiz list {' '.join(names_them)}"] if counts else []
    lines = [Text(command, style="code") for command in (*commands, "ddpquiz learn CONCEPT")]
    legend = [Text("✓ lesson read · ▸ begun · cards: seen/all", style="quiet")] if learned else []
    return Group(*parts, Text(), Text(" · ".join(totals)), *legend, *marked_items, *lines)


def learning_path(concepts: Sequence[Concept]) -> Group:
    """Draw numbered concepts, each with its idea, in the order in which to learn them."""
    rows = [
        (Text(f"{number}.", style="quiet", justify="right"), Text(concept.id, style="code"), prose(concept.idea))
        for number, concept in enumerate(concepts, 1)
    ]
    return Group(columns(rows))


def contents(concept: Concept, marks: Marks = MappingProxyType({}), labs: Sequence[LabTitle] = ()) -> Group:
    """Draw the items of a concept: the name, level, marks and question of each; and its labs."""
    parts: list[RenderableType] = [Text.assemble((plain(concept.title), "head"), "  ", (concept.id, "quiet"))]
    for title, items in (("Cards", concept.cards), ("Questions", concept.questions), ("Explain", concept.explain)):
        if items:
            names = (named(item.id, _sort(item), marks.get(item.key, ())) for item in items)
            asked = (indented(one_line(asks(item))) for item in items)
            parts += section(title, *map(Group, names, asked))
    if labs:
        rows = ((Text(plain(f"ddpquiz lab {lab.id}"), style="code"), Text(plain(lab.title))) for lab in labs)
        parts += section("Labs", columns(rows))
    return Group(*parts, Text(), Text(f"ddpquiz show {concept.id}/ITEM", style="code"))


def to_read(hits: Sequence[Hit]) -> list[Hit]:
    """Put questions last, because the learner should find their answers first."""
    return sorted(hits, key=lambda hit: not hit.is_prose)


def found(hits: Sequence[Hit], words: str, marks: Marks = MappingProxyType({})) -> Group:
    """Draw hits, each with a line that shows where a word occurs, but never an answer."""
    parts: list[RenderableType] = []
    for hit in hits:
        parts += [named(hit.key, hit.kind, marks.get(hit.key, ())), indented(one_line(heading(hit)))]
        elsewhere = [word for word in words.lower().split() if word not in f"{hit.key} {hit.heading}".lower()]
        if elsewhere and (line := _part_with(elsewhere[0], hit)):
            parts.append(indented(one_line(line, "quiet")))
    return Group(*parts)


def heading(hit: Hit) -> str:
    """The title of a concept, or what an item asks."""
    question = _question(hit)
    return asks(question) if question else hit.heading


def _question(hit: Hit) -> Question | None:
    return next((question for question in hit.concept.questions if question.key == hit.key), None)


def marked(marks: Sequence[tuple[str, str, str, str, str]]) -> Group:
    """Draw marked items: for each its key, the kind of mark, the day, what it asks, and a note."""
    if not marks:
        return Group(Text("None."))
    parts: list[RenderableType] = []
    for kind, item, day, note, ask in marks:
        parts += [Text.assemble((plain(item), "code"), "  ", (f"{MARK_WORDS[kind]} · {day}", "quiet"))]
        parts += [indented(one_line(text)) for text in (ask, note) if text]
    if any(kind == "suspend" for kind, *_ in marks):
        parts += [Text(), Text("ddpquiz progress restore ITEM", style="code")]
    return Group(*parts)


def one_line(text: str, style: str = "") -> Text:
    """Draw as much of a text as fits in a line."""
    shown = prose(" ".join(text.split()), style)
    shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown


@dataclass(frozen=True, slots=True)
class _Rows:
    """Names and counts of concepts, with the same column widths in every table; long titles wrap."""

    widths: Sequence[int]
    rows: Sequence[Sequence[Text]]
    has_marks: bool = False  # each row begins with one

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        numbers = [len(word) for word in _HEAD[2:]]
        left = options.max_width - self.widths[0] - sum(numbers) - 2 * (len(_HEAD) - 1) - 3 * self.has_marks
        table = Table.grid(padding=(0, 2, 0, 0))
        if self.has_marks:
            table.add_column(width=1)
        table.add_column(width=self.widths[0], no_wrap=True)
        table.add_column(width=max(1, min(self.widths[1], left)))
        for width in numbers:
            table.add_column(width=width, no_wrap=True, justify="right")
        for row in self.rows:
            table.add_row(*row)
        yield table


def _row(concept: Concept, learned: Mapping[str, LearnedSoFar]) -> list[Text]:
    counts = [str(len(items)) for items in (concept.cards, concept.questions, concept.demos)]
    known = learned.get(concept.id)
    if known:
        counts[0] = f"{known.cards}/{counts[0]}"
    mark = [Text(known.mark if known else "", style="good")] if learned else []
    return [*mark, Text(concept.id, style="code"), prose(concept.title), *map(Text, counts)]


def _sort(item: Item) -> str:
    if isinstance(item, Question):
        return f"{item.level} {item.kind}"
    return str(item.level) if isinstance(item, Card) else ""


def _part_with(word: str, hit: Hit) -> str:
    """The sentence, or the line of a question's code, that contains a word, from shortly before the word."""
    question = _question(hit)
    bare = hit.more.replace("**", "")  # of bold words, a sentence may hold one end only
    parts = sample(question).question.code.splitlines() if question else _SENTENCE.split(bare)
    part = next((" ".join(part.split()) for part in parts if word in part.lower()), "")
    start = part.lower().find(word) - _BEFORE
    start = part.rfind(" ", 0, start) + 1 if start > _BEFORE else 0
    return f"… {part[start:]}" if start else part


def demos(catalog: Catalog, known: Sequence[Demo], timings: Mapping[str, Timing]) -> Group:
    """Draw the demos, grouped by the track of the concept that each is about."""
    width = max((len(demo.name) for demo in known), default=0)
    parts: list[RenderableType] = []
    about = {demo.name: concept for demo in known if (concept := _about(demo, catalog))}
    tracks = {demo.name: about[demo.name].track if demo.name in about else "" for demo in known}
    order = {concept.id: place for place, concept in enumerate(catalog.concepts)}
    for track, title in [*((track.id, track.title) for track in catalog.tracks), ("", "Others")]:
        here = [demo for demo in known if tracks[demo.name] == track]
        if track:
            here.sort(key=lambda demo: order[about[demo.name].id])
        if here:
            rows = (
                (Text(demo.name.ljust(width), style="code"), _summary(demo, timings.get(demo.name))) for demo in here
            )
            parts += section(plain(title), columns(rows))
    return Group(*parts[1:], Text(), columns((Text(command, style="code"), Text(what)) for command, what in _NEXT))


def _about(demo: Demo, catalog: Catalog) -> Concept | None:
    """The concept that uses a demo most often; among equals, one that lists it first."""

    def weight(concept: Concept) -> tuple[int, bool]:
        runs = [link.run for link in concept.demos]
        return runs.count(demo.name), runs[0] == demo.name

    touching = [concept for concept in catalog.concepts if any(link.run == demo.name for link in concept.demos)]
    return max(touching, key=weight, default=None)


def _summary(demo: Demo, timing: Timing | None) -> Text:
    text = prose(demo.summary)
    if timing:
        args = f" with {plain(' '.join(timing.args))}" if timing.args else ""
        text.append(f"  {timing.seconds:.1f} s on {plural(timing.ranks, 'rank')}{args}", style="quiet")
    return text
