"""A verdict as a page: what is wrong, where each rank stands, and what to look at next."""

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.analysis.formatting import format_place, format_ranks, format_seconds
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.analysis.verdict import Diagnosis, Standpoint
from ddpquiz.terminal.kit.layout import bullets, columns, section
from ddpquiz.terminal.kit.style import plain, prose

TITLES = {
    "missing": "A call is missing",
    "order": "Calls in different order",
    "signature": "Calls that do not fit together",
    "late": "A rank is late",
    "dead": "A rank is dead",
    "left": "A rank left early",
    "none": "No fault found",
}


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
    limits = [*verdict.limits, *record.notes]
    if record.clock_error:
        limits.append(f"Clocks of different machines agree to within {format_seconds(record.clock_error)}.")
    if limits:
        parts += section("What is not certain", bullets(prose(plain(text)) for text in limits))
    return Group(*parts, Text(), Text(source_of(record), style="quiet"))


def source_of(record: JobRecord) -> str:
    """Return in a sentence what was read."""
    missing = f"; nothing of {format_ranks(record.missing)}" if record.missing else ""
    return f"From {record.source}: {len(record.present):,} of {record.ranks:,} ranks{missing}."


def _row(each: Standpoint) -> tuple[Text, Text, Text]:
    place = format_place(each.file, each.line) if each.line else ""
    return Text(format_ranks(each.ranks)), Text(plain(each.doing)), Text(plain(place), style="code")
