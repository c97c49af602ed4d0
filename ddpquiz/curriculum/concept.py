"""What a concept file holds, as plain frozen data: a concept with its cards, questions, proofs and demos."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

OPTION = "<option>"  # the line of a proof in whose place the code of each option stands


class Level(StrEnum):
    """How hard an item is. Of questions: recall, application, or computing and debugging."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class CardLevel(StrEnum):
    """The level of a card as content files and Anki decks write it: the learner who should know it."""

    BEGINNER = "beginner"
    INTERMEDIATE = "intermediate"
    ADVANCED = "advanced"

    @property
    def level(self) -> Level:
        return {self.BEGINNER: Level.EASY, self.INTERMEDIATE: Level.MEDIUM, self.ADVANCED: Level.HARD}[self]


class Kind(StrEnum):
    """How a question is answered."""

    CHOICE = "choice"  # one option is right
    CHOICES = "choices"  # several options are right, and all of them are needed
    NUMBER = "number"  # compute a number from values that are drawn each time
    ORDER = "order"  # put the lines in order
    OUTPUT = "output"  # say what this code prints
    SPOT = "spot"  # find the line of a script that is at fault


@dataclass(frozen=True, slots=True)
class Shows:
    """What a proof must observe.

    Exactly one field is set: `everywhere`, the text that every rank prints; `by_rank`, the text that each named rank
    prints; `raises`, how the last line of the first traceback starts; `hangs`, that the ranks wait forever.
    """

    everywhere: str | None = None
    by_rank: Mapping[int, str] | None = None
    raises: str | None = None
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class CodeProof:
    """A proof that runs code on real ranks.

    In `code`, a line `<option>` stands for an option's code (`choice`, `choices`), the lines in order (`order`) or the
    script (`spot`); the variables of a `number` question are defined before it. `code` is None if the question's own
    code runs. `ranks` is an arithmetic expression over the question's variables. `fixed` is what a `spot` question's
    script shows once the line at fault is fixed. `origin` is the fingerprint of the pack's files that it was read from.
    """

    ranks: str
    code: str | None = None
    shows: Shows | None = None
    fixed: Shows | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class DemoProof:
    """A proof by a demo: the value that it prints under `label`. `{name}` in an argument stands for a variable."""

    ranks: str
    demo: str
    label: str
    args: tuple[str, ...] = ()
    origin: str = ""  # as above


Proof = CodeProof | DemoProof


@dataclass(frozen=True, slots=True)
class Option:
    """One option to choose. `why` explains the error behind a wrong one; `shows` is what a proof would observe."""

    text: str
    right: bool = False
    why: str = ""
    code: bool = False  # `text` is code, shown as such
    shows: Shows | None = None


@dataclass(frozen=True, slots=True)
class Trap:
    """A common wrong answer to a `number`, `output` or `spot` question, and the error behind it."""

    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line to put in order. `shows` is what a proof prints when this step happens."""

    text: str
    shows: str | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a `number` question, and its possible values.

    `measured` is the figure of the learner's machine that takes their place, such as `all_reduce.alpha`.
    """

    name: str
    values: tuple[str, ...]
    measured: str = ""


class _Keyed:
    """Anything that the log refers to by a key."""

    __slots__ = ()
    concept: str
    id: str

    @property
    def key(self) -> str:
        """The name of this item in the log. It stays the same when the text is edited."""
        return f"{self.concept}/{self.id}"


@dataclass(frozen=True, slots=True)
class Card(_Keyed):
    """A fact to recall. `proof` is the id of a question whose proof shows it, or ""."""

    concept: str
    id: str
    level: Level
    front: str
    back: str
    source: str
    proof: str = ""


@dataclass(frozen=True, slots=True)
class Question(_Keyed):
    """A question with its solution. `kind` decides which fields are used: options, lines, or answer with traps."""

    concept: str
    id: str
    level: Level
    kind: Kind
    ask: str
    code: str = ""
    options: tuple[Option, ...] = ()
    lines: tuple[Line, ...] = ()  # in the right order
    variables: tuple[Variable, ...] = ()
    answer: str = ""  # NUMBER: an expression over the variables. OUTPUT: the text. SPOT: the line at fault
    fix: str = ""  # SPOT: what should stand in place of that line, with its indentation
    unit: str = ""
    tolerance: float = 0.0  # relative; of a NUMBER
    rank: int | None = None  # OUTPUT: the rank whose text is the answer; None: every rank prints the same
    traps: tuple[Trap, ...] = ()
    hints: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    check: str = ""
    proof: Proof | None = None
    source: str = ""
    card: str = ""  # the id of a card of the concept that says what the question asks


@dataclass(frozen=True, slots=True)
class Prompt(_Keyed):
    """Something to explain in one's own words, with a model answer and the points that a good answer makes."""

    concept: str
    id: str
    ask: str
    hint: str
    answer: str
    points: tuple[str, ...]


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
    """A demo that shows a concept.

    `predict` is the id of the question that is asked before it runs, or "". `labels` are the values to look at, if a
    step of the lesson names them.
    """

    run: str
    look: str
    args: tuple[str, ...] = ()
    ranks: int | None = None
    predict: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineChange:
    """One line of a listing and what to put in its place, what is seen then, and what that means (Markdown)."""

    line: str
    to: str
    shows: Shows
    then: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Code of a lesson that runs on real ranks, and what they show. `change` changes one line and runs it again.

    `origin` is the fingerprint of the pack's files that it was read from.
    """

    ranks: int
    code: str
    shows: Shows
    change: LineChange | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One idea of a lesson, and what the learner does about it.

    `text` is Markdown. `ask` is the id of a question or card of the concept, answered before the listing or the demo
    runs; `then` says what the result means; `picture` is the name of the one that the site shows with the text, or "".
    A lesson that was written as one text is one step with nothing to do.
    """

    text: str
    listing: Listing | None = None
    ask: str = ""
    demo: DemoLink | None = None
    then: str = ""
    picture: str = ""

    @property
    def is_done_by_learner(self) -> bool:
        """Whether it ends in something to do."""
        return bool(self.listing or self.ask or self.demo)


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing to understand, and every way to learn it.

    `more` is what the lesson leaves out, as Markdown, and `picture` the name of the one that the site shows with it.
    `able` completes "You can now ...". Each of them may be "".
    """

    id: str
    track: str
    title: str
    idea: str
    why: str
    steps: Sequence[LessonStep]
    needs: tuple[str, ...]
    commands: Sequence[Command]
    mistakes: Sequence[Mistake]
    remember: tuple[str, ...]
    demos: tuple[DemoLink, ...]
    cards: tuple[Card, ...]
    questions: Sequence[Question]
    explain: Sequence[Prompt]
    more: str = ""
    picture: str = ""
    able: str = ""

    def items(self) -> tuple[Item, ...]:
        return (*self.cards, *self.questions, *self.explain)

    @property
    def in_steps(self) -> bool:
        """Whether its lesson is steps with something to do; otherwise it is one text."""
        return any(step.is_done_by_learner for step in self.steps)

    @property
    def taught_cards(self) -> tuple[Card, ...]:
        """The cards that its lesson teaches: steps leave hard ones to `more`, and to later sittings of study."""
        return tuple(card for card in self.cards if not self.in_steps or card.level != Level.HARD)

    @property
    def lesson(self) -> str:
        """All of the lesson as one Markdown text, with its listings and what their results mean."""
        parts: list[str] = []
        for step in self.steps:
            listing = step.listing
            code = f"```python\n{listing.code}\n```" if listing else ""
            parts += [step.text, code, step.then, (listing.change.then if listing and listing.change else "")]
        return "\n\n".join(filter(None, (*parts, self.more)))

    def asked_in(self, step: LessonStep) -> Card | Question | None:
        """The card or question that a step asks."""
        items: tuple[Card | Question, ...] = (*self.cards, *self.questions)
        return next((each for each in items if each.id == step.ask), None)
