"""A prediction: the question that a run of a demo answers, asked before the run, and what the run makes of it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Card, DemoLink, DemoProof, Kind, Question
from ddpquiz.curriculum.posed_question import Posed, expected, pose
from ddpquiz.events.run_state import RunState
from ddpquiz.learning.answers import card_of_mistake, save_answer
from ddpquiz.learning.guided_path import has_begun, save_seen
from ddpquiz.learning.judge import Verdict, judge
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.quiz import Answer
from ddpquiz.terminal.kit.key_screen import HELP, Hotkey
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.kit.typing_screen import command_line
from ddpquiz.terminal.runs.frame import Hint
from ddpquiz.terminal.sittings import question_view
from ddpquiz.terminal.sittings.question_view import AnswerScreen

NONE = Hotkey("s", "no prediction", "run the demo without a prediction")
LEAVE = Hotkey("q", "leave", "leave without running the demo (or esc)")
_COMMANDS = (NONE, HELP, LEAVE)


class NoRun(Exception):  # noqa: N818  # not an error
    """The learner declined the run."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer that was given before a run, in words, and its verdict."""

    words: str
    verdict: Verdict


def find_question(catalog: Catalog, run: DemoLink, preferred: str = "") -> tuple[DemoLink, Question] | None:
    """The question that predicts exactly this run, and its link; None if no concept has one.

    Of `run` only the demo, its arguments and its ranks count; without ranks, any number will do. A question of the
    concept `preferred` comes first, then one that is proven by the demo itself.
    """
    fitting = [
        (link, question)
        for concept in catalog.concepts
        for link in concept.demos
        if (link.run, link.args) == (run.run, run.args) and run.ranks in (None, link.ranks)
        for question in concept.questions
        if question.id == link.predict and question.kind is not Kind.NUMBER  # whose values would have to be the run's
    ]

    def order(pair: tuple[DemoLink, Question]) -> tuple[bool, bool]:
        return pair[1].concept != preferred, not isinstance(pair[1].proof, DemoProof)

    return min(fitting, key=order, default=None)


def makes_card_due(catalog: Catalog, question: Question, progress: Progress, at: datetime, *, in_path: bool) -> bool:
    """Whether a wrong prediction makes a card due now."""
    return card_of_mistake(progress, question, _cards(catalog, question, progress, in_path=in_path), at) is not None


def ask(
    catalog: Catalog, predicted: tuple[DemoLink, Question], console: Console, place: str = "", *, makes_due: bool
) -> PredictedRun:
    """Ask for a prediction on a screen of its own; `place` is where it stands in a guided path.

    The screen says what a wrong one does if it `makes_due` a card. Raises NoRun if the learner declines the run, and
    KeyboardInterrupt for ctrl+c.
    """
    link, question = predicted
    posed = pose(question, random.Random())  # noqa: S311
    began = time.monotonic()
    screen = PredictionScreen(posed, link.run, place, makes_due=makes_due)
    screen.show(console)
    took = timedelta(seconds=time.monotonic() - began)
    return PredictedRun(catalog, link, posed, screen.prediction, took, in_path=bool(place))


@dataclass(frozen=True)
class PredictedRun:
    """A run and the question that was asked before it."""

    catalog: Catalog
    link: DemoLink
    posed: Posed
    answer: Prediction | None  # None: the learner gave none
    took: timedelta  # the time of the learner for the answer
    in_path: bool = False  # a guided path runs the demo

    @property
    def hint(self) -> Hint:
        """What to look at during the run, what was predicted, and whether that was right."""
        return _hint(self.link, self.answer, self.posed) if self.answer else Hint(self.link.look)

    def outcome(self, run: RunState, progress: Progress, at: datetime, *, is_last: bool = True) -> RenderableType:
        """Save what the run has shown, and draw why a wrong prediction is wrong.

        If it is not the last run, another one stands above that.
        """
        card = self._save(run, progress, at)
        if self.answer is None:
            return Group()
        if not (run.end and run.end.ok):
            words = self.answer.words
            return prose(f'You predicted "{words}". The run ended before it could show whether that is right.')
        if self.answer.verdict.right:
            return Group()
        question = self.posed.question
        which = "the run" if is_last else "the first run, which you predicted,"
        parts: list[RenderableType] = [Text(), Text(f"Why {which} shows that", style="head")]
        parts += [prose(f"{number}. {step}") for number, step in enumerate(question.steps, 1)]
        if card:
            due = f"The card {plain(card)} is due: ddpquiz study {plain(question.concept)}"
            parts.append(Text(due, style="quiet"))
        return Group(*parts)

    def remark(self, run: RunState, progress: Progress, at: datetime) -> str:
        """Save what the run has shown; a few sentences say whether the prediction held, and what a wrong one does."""
        card = self._save(run, progress, at)
        if self.answer is None or not (run.end and run.end.ok):
            return ""
        due = [f"The card {card} is due."] if card else []
        return " ".join((_verdict_line(self.answer, self.posed), *self.answer.verdict.whys, *due))

    def _save(self, run: RunState, progress: Progress, at: datetime) -> str | None:
        """Save the answer and that the demo was seen, if the run ended well; return the card that it made due."""
        if self.answer is None or run.end is None or not run.end.ok:
            return None
        question = self.posed.question
        answer = Answer(self.posed, self.answer.words, self.answer.verdict, at, self.took)
        cards = _cards(self.catalog, question, progress, in_path=self.in_path)
        if not self.in_path:  # which saves that itself
            save_seen(progress, self.catalog.concept(question.concept), self.link, at)
        return save_answer(progress, answer, cards).made_due_card


def _cards(catalog: Catalog, question: Question, progress: Progress, *, in_path: bool) -> Sequence[Card]:
    """The cards of which a wrong prediction makes one due: none before the lesson, since nobody recalls what is new."""
    concept = catalog.concept(question.concept)
    return concept.cards if in_path or has_begun(progress, concept) else ()


def predicted_hint(link: DemoLink, answer: Answer) -> Hint:
    """What to look at during a run, and what an answer that was given before it has predicted; the lesson says why."""
    words = question_view.answer_words(answer.posed, answer.given, answer.verdict)
    return replace(_hint(link, Prediction(words, answer.verdict), answer.posed), why="")


def _hint(link: DemoLink, prediction: Prediction, posed: Posed) -> Hint:
    said = f'You predicted "{prediction.words}".'
    reasons = () if prediction.verdict.right else posed.question.steps
    return Hint(link.look, said, _verdict_line(prediction, posed), " ".join((*prediction.verdict.whys, *reasons)))


def _verdict_line(prediction: Prediction, posed: Posed) -> str:
    """One line: whether a prediction was right, what the run showed, and last what was predicted."""
    if prediction.verdict.right:
        return f'✓ You predicted "{prediction.words}". The run showed the same.'
    right = [option.text for option in posed.question.options if option.right]
    shown = " and ".join(f'"{text}"' for text in right or [expected(posed)])
    return f'✗ The run showed {shown}. You predicted "{prediction.words}".'


class PredictionScreen(AnswerScreen):
    """A question about a run, answered by the keys of a quiz before the run, or declined."""

    def __init__(self, posed: Posed, demo: str, place: str = "", *, makes_due: bool = False) -> None:
        super().__init__()
        self._place = place
        self._makes_due = makes_due
        self.prediction: Prediction | None = None
        self._posed = posed
        self._demo = demo

    @property
    def early(self) -> tuple[str, ...]:
        """The keys that count even when they were typed for the shell; a `q` was not meant for this screen."""
        return ("ctrl+c", "ctrl+z", "eof")

    @property
    def answering(self) -> Posed:
        return self._posed

    def enter(self, key: str) -> None:
        """Add a key to the answer; enter without an answer asks for one."""
        if key == "enter" and not self.entry.text:
            escape = "esc, then " if self.writing and not self.letters_are_keys else ""
            how = f"{'Type' if self.typing else 'Choose'} an answer, or press {escape}s"
            self.note = f"{how} to run the demo without a prediction."
        else:
            super().enter(key)

    def press(self, key: str) -> None:
        match key:
            case "q" | "escape":
                raise NoRun
            case "s":
                self.left = True
            case _ if not self.typing:
                self.enter(key)

    def body(self) -> RenderableType:
        head = Text.assemble(
            (self._place or "Predict", "accent"), f" · demo {plain(self._demo)} · {self._posed.question.concept}"
        )
        due = " If it is wrong, a related card comes due." if self._makes_due else ""
        counts = Text(f"Your answer counts, as in a test.{due}", style="quiet")
        return Group(head, counts, Text(), *question_view.asked(self._posed, 0, self.entry.text))

    def above_keys(self) -> list[RenderableType]:
        field = command_line() if self.escaped else question_view.field(self._posed.question, self.entry)
        return [field] if self.typing else []

    def keys(self) -> list[Hotkey]:
        return self.answer_keys(self._posed.question)

    def escape_keys(self) -> list[Hotkey]:
        return list(_COMMANDS)

    def submit(self, text: str) -> None:
        verdict = judge(self._posed, text)
        self.note = verdict.unclear
        if not verdict.unclear:
            self.prediction = Prediction(question_view.answer_words(self._posed, text, verdict), verdict)
            self.left = True
