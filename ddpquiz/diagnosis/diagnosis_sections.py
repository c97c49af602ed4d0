"""The diagnosis of a job as titled tables and lists of sentences.

Terminal and page draw the same sections and cells, each in its own way.
"""

from ddpquiz.diagnosis.diagnosis import Diagnosis, RankPosition
from ddpquiz.events.formatting import format_place, format_ranks, format_seconds
from ddpquiz.events.summary_sections import Section
from ddpquiz.jobs.job_record import JobRecord


def diagnosis_sections(verdict: Diagnosis, record: JobRecord) -> list[Section]:
    """The verdict, where the ranks stand, what to look at next, and what is not certain."""
    stand = tuple(map(position_cells, verdict.positions))
    said = tuple(text for text in (verdict.sentence, verdict.together) if text)
    every = (
        Section(title=verdict.title, sentences=said),
        Section(title="Where the ranks stand", heads=("ranks", "doing", "line"), rows=stand),
        Section(
            title="Look next", sentences=(*((verdict.advice,) if verdict.advice else ()), lesson_sentence(verdict))
        ),
        Section(title="What is not certain", sentences=limits_of(verdict, record)),
        Section(title="What this rests on", sentences=verdict.evidence),
        Section(title="What was read", sentences=(source_of(record),)),
    )
    return [each for each in every if each.rows or each.sentences]


def position_cells(each: RankPosition) -> tuple[str, str, str]:
    """Ranks, what they do, and where."""
    return format_ranks(each.ranks), each.doing, format_place(each.file, each.line) if each.line else ""


def lesson_sentence(verdict: Diagnosis) -> str:
    """In a sentence which lesson explains what happened."""
    return f"`ddpquiz learn {verdict.concept}` explains it."


def limits_of(verdict: Diagnosis, record: JobRecord) -> tuple[str, ...]:
    """In sentences what could not be found out."""
    clocks = f"Clocks of different machines agree to within {format_seconds(record.clock_error)}."
    return (*verdict.limits, *record.notes, *((clocks,) if record.clock_error else ()))


def source_of(record: JobRecord) -> str:
    """In a sentence what was read."""
    if record.is_unrecorded:
        return f"From {record.source}."
    missing = f"; nothing of {format_ranks(record.missing)}" if record.missing else ""
    return f"From {record.source}: {len(record.present):,} of {record.ranks:,} ranks{missing}."
