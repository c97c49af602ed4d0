"""Two small concepts, enough to study and to be asked about, and a clock that a test can turn."""

from datetime import UTC, datetime, timedelta

from ddpquiz.curriculum.concept import (
    Card,
    CodeProof,
    Concept,
    DemoLink,
    Kind,
    LessonStep,
    Level,
    Line,
    Option,
    Prompt,
    Question,
    Shows,
    Trap,
    Variable,
)
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.judge import Verdict
from ddpquiz.learning.log_rows import AnswerRow
from ddpquiz.learning.quiz import Answer

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def answer_row(item, credit, **values):
    """An answer as it is saved."""
    usual = {"took": timedelta(seconds=3), "given": "2", "level": "easy", "chance": 0.25}
    return AnswerRow(item=item, credit=credit, **{**usual, **values})


def wrong_answer(question, at):
    """A wrong answer to a question."""
    posed = Posed(question, {}, tuple(range(len(question.options))))
    return Answer(posed, "1", Verdict(right=False), at, timedelta(seconds=3))


class Clock:
    """A clock that goes on by some seconds each time it is read."""

    def __init__(self, at=START, tick=4.0):
        self.at = at
        self.tick = timedelta(seconds=tick)

    def __call__(self):
        self.at += self.tick
        return self.at


def card(name, level=Level.EASY, concept="ring"):
    return Card(concept, name, level, f"Front of {name}?", f"Back of {name}.", "dist")


RING_CARDS = (
    card("one"),
    card("two", Level.MEDIUM),
    card("three", Level.HARD),
    card("four"),
)
DDP_CARDS = (card("one", concept="ddp"), card("two", concept="ddp"))

BYTES = Question(
    "ring",
    "bytes",
    Level.MEDIUM,
    Kind.CHOICE,
    "Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank send?",
    options=(
        Option("1,800 bytes", right=True),
        Option("1,200 bytes", why="Each sum travels to be made and again to be shared."),
        Option("3,600 bytes", why="A root would send that much."),
        Option("2,400 bytes", why="That is the limit for very many ranks."),
    ),
    hints=("How large is a chunk?", "There are six steps."),
    steps=("A chunk is 300 bytes.", "6 x 300 = 1,800 bytes."),
    check="Between S and 2 S.",
    proof=CodeProof("1", "print(1800)", Shows("1800")),
    card="two",
)
PHASES = Question(
    "ring",
    "phases",
    Level.EASY,
    Kind.CHOICES,
    "Which two collectives make an all-reduce?",
    options=(
        Option("reduce-scatter", right=True),
        Option("all-gather", right=True),
        Option("broadcast", why="A broadcast copies from one rank."),
        Option("barrier", why="A barrier moves no data."),
    ),
    card="one",
)
STEPS = Question(
    "ring",
    "steps",
    Level.HARD,
    Kind.NUMBER,
    "A ring of {n} ranks moves {s} bytes. How many does each rank send?",
    variables=(Variable("n", ("4",)), Variable("s", ("1200",))),
    answer="2 * (n - 1) / n * s",
    unit="bytes",
    traps=(Trap("2 * s", "That is the limit for very many ranks."),),
    steps=("2 x 3/4 x {s} = {=2*(n-1)/n*s}",),
    card="three",
)
HOOKS = Question(
    "ddp",
    "hooks",
    Level.MEDIUM,
    Kind.ORDER,
    "In which order does this happen in backward?",
    lines=(Line("the last layer's gradient is ready"), Line("its bucket is full"), Line("the all-reduce starts")),
    card="one",
)
PRINTS = Question(
    "ddp",
    "prints",
    Level.EASY,
    Kind.OUTPUT,
    "Four ranks run this. What does each print?",
    code="x = torch.tensor([1.0, float(rank)])\ndist.all_reduce(x)\nprint(x.tolist())",
    answer="[4.0, 6.0]",
    traps=(Trap("[1.0, 1.5]", "That is the mean."),),
    hints=("SUM is the default.",),
    proof=CodeProof("4"),
    card="one",
)


WHY_RING = Prompt(
    "ring",
    "why-ring",
    "Why a ring, and not a root?",
    "Count the bytes on the busiest link.",
    "A root sends and receives everything.",
    (
        "the root's link is the bottleneck",
        "the other links idle meanwhile",
        "each rank sends less than two tensors",
    ),
)


def concept(name, title, cards, questions, demos=(), explain=()):
    return Concept(
        id=name,
        track="collectives",
        title=title,
        idea="An idea.",
        why="A reason.",
        steps=(LessonStep("A lesson."),),
        needs=(),
        commands=(),
        mistakes=(),
        remember=(),
        demos=demos,
        cards=cards,
        questions=questions,
        explain=explain,
    )


RING = concept(
    "ring", "The ring", RING_CARDS, (BYTES, PHASES, STEPS), (DemoLink("allreduce", "the bytes"),), (WHY_RING,)
)
DDP = concept("ddp", "DDP", DDP_CARDS, (HOOKS, PRINTS))
QUESTIONS = (*RING.questions, *DDP.questions)
CARDS = (*RING_CARDS, *DDP_CARDS)
