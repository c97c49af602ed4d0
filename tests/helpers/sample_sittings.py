"""Sittings with the two concepts of the sample, and their screens as text."""

import io
import json
import random

from rich.console import ConsoleDimensions, Group
from sample import DDP, QUESTIONS, RING, WHY_RING, Clock

from ddpquiz.curriculum.catalog import Catalog, Source, Track
from ddpquiz.curriculum.posed_question import expected
from ddpquiz.learning import explain, quiz, study
from ddpquiz.learning.quiz import PLAIN, Given
from ddpquiz.learning.schedule import Schedule, Weights, study_day
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.explain_screen import ExplainScreen
from ddpquiz.terminal.sittings.quiz_result import QuizCommand
from ddpquiz.terminal.sittings.quiz_screen import QuizScreen
from ddpquiz.terminal.sittings.rank_runner import DEFAULT_OPTIONS, DemoOutcome
from ddpquiz.terminal.sittings.sitting import SittingContext
from ddpquiz.terminal.sittings.study_screen import StudyScreen


class NotedRanks:
    """Notes what was started instead of starting it."""

    def __init__(self):
        self.started = []
        self.error = None
        self.said = ""

    def warm(self):
        self.started.append("warm")

    def demo(self, link, how=DEFAULT_OPTIONS):
        self.started.append(link.run)
        self.how = how
        if self.error:
            raise self.error
        return DemoOutcome(self.said, was_predicted=bool(self.said), ended_well=True)

    def prove(self, posed):
        self.started.append(posed.question.key)


def context(progress, clock=None, concepts=(RING, DDP), labs=()):
    track, sources = Track("collectives", "Collectives", ("ring", "ddp")), {"dist": Source("dist", "PyTorch docs")}
    opened = []
    session = SittingContext(
        Catalog((track,), concepts, sources, labs=tuple(labs)),
        progress,
        clock or Clock(),
        open_lab=lambda name, place: opened.append((name, place)),
        ranks=NotedRanks(),
    )
    session.opened = opened
    return session


def studying(progress, cards, *, limit=20, new=20, memories=None, two_buttons=False, cram=False, proven=(), **options):
    memories = progress.memories() if memories is None else memories
    clock = Clock()
    earlier = progress.grades(study_day(clock.at))
    rules = study.QueueRules(limit=limit, new=new, cram=cram, proven=proven, earlier=earlier)
    chosen = study.choose_cards(cards, memories, study_day(clock.at), rules)
    begun = study.begin(chosen, memories, Schedule(Weights()), clock.at, two_buttons=two_buttons)
    return StudyScreen(context(progress, clock), begun, **options)


def quizzing(progress, *questions, seed=1, rules=PLAIN, **options):
    clock, dice = Clock(), random.Random(seed)
    begun = quiz.begin(questions or QUESTIONS, dice, clock.at, rules=rules)
    return QuizScreen(context(progress, clock), begun, dice, QuizCommand(**options))


def explaining(progress, *prompts, **options):
    clock = Clock()
    return ExplainScreen(context(progress, clock), explain.begin(prompts or (WHY_RING,), clock.at), **options)


def press(seat, *keys):
    for key in keys:
        seat.handle_key(key)
    return seat


def type_text(seat, text):
    """Press the keys that type a text."""
    return press(seat, *({" ": "space", "\n": "enter"}.get(letter, letter) for letter in text))


def screen(seat, width=80, height=100):
    """What a seat shows, as lines without the blanks at their ends."""
    console = style.console(io.StringIO(), width=width)
    console.size = ConsoleDimensions(width, height)
    console.print(Group(seat.shown(), seat.foot(width)))
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().split("\n"))


def spoken(seat, *lines, width=80):
    """What a seat prints when it reads lines."""
    console = style.console(io.StringIO(), width=width)
    seat.by_lines.read(console, lines)
    return console.file.getvalue()


def play(state, *events, clock=None):
    """Let events happen to a quiz, one after the other."""
    clock = clock or Clock()
    for event in events:
        state, _ = quiz.step(state, event, clock())
    return state


def right(state):
    """The event that answers the question on screen rightly."""
    return Given(expected(state.posed))


def saved_explanations(progress):
    """Return item, credit, text and overruled points of each explanation in the log."""
    rows = progress.entries("explanation")
    return [(row.item, row.credit, row.given, [p["overruled"] for p in json.loads(row.points)]) for row in rows]
