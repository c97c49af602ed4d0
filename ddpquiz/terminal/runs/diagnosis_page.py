"""A verdict as a page: what is wrong, where each rank stands, and what to look at next."""

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.analysis.frames.report import TITLES, limits_of, source_of, standpoint_cells
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.analysis.verdict import Diagnosis, Standpoint
from ddpquiz.terminal.kit.layout import bullets, columns, section
from ddpquiz.terminal.kit.style import plain, prose


def diagnosis_page(verdict: Diagnosis, record: JobRecord) -> RenderableType:
    """Draw a verdict, with what it rests on."""
    title = Text(TITLES[verdict.fault], style="good" if verdict.fault == "none" else "bad")
    parts: list[RenderableType] = [title, prose(plain(verdict.sentence))]
    if verdict.standpoints:
        parts += section("Where the ranks stand", columns(map(_row, verdict.standpoints)))
    if verdict.together:
        parts += [Text(), prose(plain(verdict.together))]
    if verdict.next:
        parts += section("Look next", prose(verdict.next))
    if limits := limits_of(verdict, record):
        parts += section("What is not certain", bullets(prose(plain(text)) for text in limits))
    return Group(*parts, Text(), Text(source_of(record), style="quiet"))


def _row(each: Standpoint) -> tuple[Text, Text, Text]:
    ranks, doing, place = standpoint_cells(each)
    return Text(ranks), Text(plain(place), style="code"), Text(plain(doing))  # which may be long, and wraps
