"""A prediction: a question about a demo, asked before the demo runs, and its verdict after the run."""

from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.judge import Verdict, expected, judge
from ddpquiz.terminal.kit.key_screen import HELP, Hotkey
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings import question_view
from ddpquiz.terminal.sittings.question_view import ESCAPE, AnswerScreen, command_line
from ddpquiz.terminal.sittings.sitting import note_lines

NONE = Hotkey("s", "no prediction", "run the demo without a prediction")
LEAVE = Hotkey("q", "leave", "leave without running the demo (esc does it too)")
_COMMANDS = (NONE, HELP, LEAVE)


class NoRun(Exception):  # noqa: N818  # not an error
    """The learner declined the run."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer that was given before a run, in words, and its verdict."""

    words: str
    verdict: Verdict


def ask(posed: Posed, demo: str, console: Console, place: str = "") -> Prediction | None:
    """Ask for a prediction on a screen of its own; return None if the learner gives none.

    For `place` see SessionContext. Raises NoRun if the learner declines the run, and KeyboardInterrupt for ctrl+c.
    """
    screen = PredictionScreen(posed, demo, place)
    screen.show(console)
    return screen.prediction


class PredictionScreen(AnswerScreen):
    """A question about a run, answered by the keys of a quiz before the run, or declined."""

    def __init__(self, posed: Posed, demo: str, place: str = "") -> None:
        super().__init__()
        self._place = place
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

    def handle_key(self, key: str) -> None:
        """Obey a key. Raises NoRun if it declines the run, as pressing esc twice does while an answer is typed."""
        if self.escaped and key == ESCAPE:
            raise NoRun
        super().handle_key(key)

    def enter(self, key: str) -> None:
        """Add a key to the answer; enter without an answer asks for one."""
        if key == "enter" and not self.entry.text:
            how = "Type an answer, or press esc, then s," if self.typing else "Choose an answer, or press s"
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
        counts = Text("It counts like an answer in a test: a wrong one makes a card due.", style="quiet")
        return Group(head, counts, Text(), *question_view.asked(self._posed, 0, self.entry.text))

    def above_keys(self) -> list[RenderableType]:
        field = command_line() if self.escaped else question_view.field(self._posed.question, self.entry)
        return [*note_lines(self.note), *([field] if self.typing else [])]

    def keys(self) -> list[Hotkey]:
        keys = self.entry.keys(self._posed.question)
        if not self.typing:
            return [*keys, *_COMMANDS]
        return self.escape_keys() if self.escaped else keys

    def escape_keys(self) -> list[Hotkey]:
        return list(_COMMANDS)

    def submit(self, text: str) -> None:
        verdict = judge(self._posed, text)
        self.note = verdict.unclear
        if not verdict.unclear:
            self.prediction = Prediction(question_view.answer_text(self._posed, text, verdict), verdict)
            self.left = True


def verdict_line(prediction: Prediction, posed: Posed) -> str:
    """Return in one line whether a prediction was right, what the run showed, and last what was predicted."""
    if prediction.verdict.right:
        return f'✓ You predicted "{prediction.words}". The run showed the same.'
    right = [option.text for option in posed.question.options if option.right]
    shown = " and ".join(f'"{text}"' for text in right or [expected(posed)])
    return f'✗ The run showed {shown}. You predicted "{prediction.words}".'


def outcome(prediction: Prediction, posed: Posed, card: str | None, *, ok: bool) -> RenderableType:
    """Draw the steps to the right answer, and which card is due; `ok` is false when the run failed."""
    if not ok:
        return prose(f'You predicted "{prediction.words}". The run ended before it could show whether that is right.')
    if prediction.verdict.right:
        return Group()
    parts: list[RenderableType] = [Text(), Text("Why the run shows that", style="head")]
    parts += [prose(f"{number}. {step}") for number, step in enumerate(posed.question.steps, 1)]
    if card:
        concept = posed.question.concept
        parts.append(Text(f"The card {plain(card)} is due: ddpquiz study {plain(concept)}", style="quiet"))
    return Group(*parts)
