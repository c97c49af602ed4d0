"""What there is to learn, as plain frozen data: a concept with its cards, questions, proofs and demos."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class CardLevel(StrEnum):
    """How far along a learner is who should know a card."""

    BEGINNER = "beginner"
    INTERMEDIATE = "intermediate"
    ADVANCED = "advanced"


class Level(StrEnum):
    """How hard a question is: recall, apply to a case, or compute and debug."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class Kind(StrEnum):
    """How a question is answered."""

    CHOICE = "choice"  # one option is right
    CHOICES = "choices"  # several are, and all of them are needed
    NUMBER = "number"  # compute it, with values drawn afresh each time
    ORDER = "order"  # put the lines in order
    OUTPUT = "output"  # what does this code print


@dataclass(frozen=True, slots=True)
class Shows:
    """What a proof must observe.

    Exactly one field is set: `everywhere`, the text that every rank prints; `by_rank`, the text that each named rank
    prints; `raises`, how the last line of the first traceback starts; `hangs`, that the ranks wait for ever.
    """

    everywhere: str | None = None
    by_rank: Mapping[int, str] | None = None
    raises: str | None = None
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class CodeProof:
    """A proof that runs code on real ranks.

    In `code`, a line `<option>` stands for an option's code (`choice`, `choices`) or for the lines in order (`order`);
    the variables of a `number` question are defined before it. `code` is None when the question's own code is to run.
    `ranks` is an arithmetic expression over the question's variables.
    """

    ranks: str
    code: str | None = None
    shows: Shows | None = None


@dataclass(frozen=True, slots=True)
class DemoProof:
    """A proof by a demo: the value that it prints under `label`. `{name}` in an argument stands for a variable."""

    ranks: str
    demo: str
    label: str
    args: tuple[str, ...] = ()


Proof = CodeProof | DemoProof


@dataclass(frozen=True, slots=True)
class Option:
    """One answer to choose; `why` speaks to the belief behind a wrong one, `shows` is what a proof would then see."""

    text: str
    right: bool = False
    why: str = ""
    code: bool = False  # `text` is code, shown as such
    shows: Shows | None = None


@dataclass(frozen=True, slots=True)
class Trap:
    """A wrong answer that people give to a `number` or `output` question, and the belief behind it."""

    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line to be put in order; `shows` is what a proof prints when this step happens."""

    text: str
    shows: str | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A name in a `number` question, and the values that it is drawn from."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A fact to recall; `proof` is the id of the question whose proof shows it, if there is one."""

    concept: str
    id: str
    level: CardLevel
    front: str
    back: str
    source: str
    proof: str = ""

    @property
    def key(self) -> str:
        """The name of this item in the log: it never changes, whatever happens to the text."""
        return f"{self.concept}/{self.id}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its key. Which fields are used depends on `kind`: options, lines, or answer with its traps."""

    concept: str
    id: str
    level: Level
    kind: Kind
    ask: str
    code: str = ""
    options: tuple[Option, ...] = ()
    lines: tuple[Line, ...] = ()  # in the right order
    variables: tuple[Variable, ...] = ()
    answer: str = ""  # NUMBER: an expression over the variables. OUTPUT: the text
    unit: str = ""
    tolerance: float = 0.0  # relative; of a NUMBER
    rank: int | None = None  # OUTPUT: the rank whose text is asked for; None: every rank prints the same
    traps: tuple[Trap, ...] = ()
    hints: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    check: str = ""
    proof: Proof | None = None
    source: str = ""

    @property
    def key(self) -> str:
        """The name of this item in the log: it never changes, whatever happens to the text."""
        return f"{self.concept}/{self.id}"


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a rubric: what should be said, and words that show that it was."""

    say: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Something to explain in one's own words, with a model answer and the points that a good answer makes."""

    concept: str
    id: str
    ask: str
    hint: str
    answer: str
    points: tuple[Point, ...]

    @property
    def key(self) -> str:
        """The name of this item in the log."""
        return f"{self.concept}/{self.id}"


Item = Card | Question | Prompt


@dataclass(frozen=True, slots=True)
class Command:
    """A real command line: what it does, its flags, and what it printed."""

    run: str
    does: str
    flags: Mapping[str, str]
    prints: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong belief or wrong code, what happens then, and what to do instead."""

    do: str
    happens: str
    instead: str


@dataclass(frozen=True, slots=True)
class DemoLink:
    """A demo that shows a concept; `predict` is the id of the question that is asked before it runs."""

    run: str
    look: str
    args: tuple[str, ...] = ()
    ranks: int | None = None
    predict: str = ""


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing to understand, and every way to learn it."""

    id: str
    track: str
    title: str
    idea: str
    why: str
    lesson: str
    needs: tuple[str, ...]
    commands: tuple[Command, ...]
    mistakes: tuple[Mistake, ...]
    remember: tuple[str, ...]
    demos: tuple[DemoLink, ...]
    cards: tuple[Card, ...]
    questions: tuple[Question, ...]
    explain: tuple[Prompt, ...]

    def items(self) -> tuple[Item, ...]:
        """Return everything in it that the log knows by a key."""
        return (*self.cards, *self.questions, *self.explain)


@dataclass(frozen=True, slots=True)
class Track:
    """A folder of concepts, in the order in which they are learned."""

    id: str
    title: str
    concepts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact was read."""

    key: str
    title: str
    authors: str = ""
    year: str = ""
    address: str = ""
