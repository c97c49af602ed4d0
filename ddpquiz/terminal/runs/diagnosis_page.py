"""The page of `ddpquiz diagnose` and `where`: the verdict on a job, and where its ranks stand."""

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.diagnosis.diagnosis import Diagnosis, RankPosition
from ddpquiz.diagnosis.diagnosis_sections import lesson_sentence, limits_of, position_cells, source_of
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.terminal.kit.key_screen import BACK, GOES_BACK, HELP, Hotkey, KeyScreen
from ddpquiz.terminal.kit.layout import Shortened, bullets, columns, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.runs.run_screen import LESSON


class DiagnosisScreen(KeyScreen):
    """A verdict to read, and the lesson that explains it."""

    def __init__(self, page: RenderableType, lesson: Callable[[], RenderableType]) -> None:
        super().__init__()
        self._page, self._lesson = page, lesson
        self._is_lesson = False

    @property
    def scene(self) -> bool:
        return self._is_lesson

    @property
    def reading(self) -> bool:
        return True

    def body(self) -> RenderableType:
        return self._lesson() if self._is_lesson else self._page

    def keys(self) -> list[Hotkey]:
        return [BACK, HELP] if self._is_lesson else [LESSON, HELP, _DONE]

    def press(self, key: str) -> None:
        if self._is_lesson:
            self._is_lesson = key not in (*GOES_BACK, LESSON.key)
        elif key == LESSON.key:
            self._is_lesson = True
        elif key in GOES_BACK:
            self.left = True


_DONE = Hotkey("q", "leave", "leave; the verdict stays in the terminal (or enter, esc)", also=("enter",))

_STYLES = {"none": "good", "quiet": "", "stopped": "warn", "unknown": "warn"}  # of titles; those of faults are bad


def diagnosis_page(verdict: Diagnosis, record: JobRecord) -> RenderableType:
    """Draw a verdict, with what it rests on."""
    title = Text(verdict.title, style=_STYLES.get(verdict.fault, "bad"))
    parts: list[RenderableType] = [title, prose(plain(verdict.sentence))]
    if verdict.positions:
        parts += section("Where the ranks stand", columns(map(_position_row, verdict.positions)))
    if verdict.together:
        parts += [Text(), prose(plain(verdict.together))]
    sentences = (verdict.advice, lesson_sentence(verdict))
    parts += section("Look next", *(prose(sentence) for sentence in sentences if sentence))
    if limits := limits_of(verdict, record):
        parts += section("What is not certain", bullets(prose(plain(text)) for text in limits))
    if verdict.evidence:
        parts += section("What this rests on", bullets(Text(plain(text)) for text in verdict.evidence))
    return Group(*parts, Text(), Text(source_of(record), style="quiet"))


def _position_row(each: RankPosition) -> tuple[RenderableType, ...]:
    ranks, doing, place = position_cells(each)
    return Text(ranks), Shortened(plain(place), style="code"), Text(plain(doing))  # which may be long, and wraps
