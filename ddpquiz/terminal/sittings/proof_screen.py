"""A proof on the screen: what runs, what was observed, and which answers agree with it."""

import contextlib
import sys
import termios
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text

from ddpquiz.curriculum.concept import CodeProof, DemoProof, Kind, Option, Question
from ddpquiz.curriculum.pack_consent import require_consent
from ddpquiz.curriculum.posed_question import Posed, expected
from ddpquiz.curriculum.question_code import fault_line, fixed_script
from ddpquiz.errors import UserError
from ddpquiz.plural import plural
from ddpquiz.ranks import content_runner
from ddpquiz.ranks.installed_torch import require_demos
from ddpquiz.ranks.server_connection import server
from ddpquiz.terminal.kit import layout
from ddpquiz.terminal.kit.key_screen import GOES_BACK, HELP, Hotkey, KeyScreen
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.screen import Screen, is_interactive
from ddpquiz.terminal.kit.style import code, plain, prose
from ddpquiz.terminal.sittings import question_view


def show(posed: Posed, console: Console) -> bool:
    """Print the question, what runs, and what was observed; return whether it agrees with the answer.

    UserError if the question has no proof.
    """
    _begin(posed)
    layout.show(console, Group(*question(posed), _head(posed)))
    console.print(_running(posed), soft_wrap=True)  # code stays as it is, to be copied
    agrees = True
    for found in observe(posed):
        layout.show(console, found.shown)
        agrees = agrees and found.agrees
    return agrees


def visit(posed: Posed, console: Console) -> None:
    """Run a proof and show it inside a sitting, on a screen of its own in a terminal, until the learner leaves it.

    UserError if the question has no proof.
    """
    if not is_interactive():
        show(posed, console)
        return
    _begin(posed)
    with Screen(console) as screen:
        shown = _ProofScreen(posed)
        with _unechoed():
            shown.run(screen)
        with Keys(away=screen.suspended) as keys:
            shown.loop(screen, keys)


def _begin(posed: Posed) -> None:
    """Start the server of ranks, once the learner has allowed the pack; UserError if the question has no proof."""
    asked = posed.question
    if asked.proof is None:
        raise UserError(f"{asked.key} has a source instead of a proof that can be run: {asked.source}.")
    require_demos()
    require_consent(asked.concept.rpartition("/")[0], asked.proof.origin)
    server()


class _ProofScreen(KeyScreen):
    """A proof that runs and can then be read; the observations stand above the code, so that they are visible."""

    def __init__(self, posed: Posed) -> None:
        super().__init__()
        self._posed = posed
        self._found: list[_ProofOutcome] = []

    def run(self, screen: Screen) -> None:
        """Run the proof, painting each observation."""
        foot = Text("running · ctrl+c stops it", style="quiet")
        screen.paint(self.body(), foot)
        for found in observe(self._posed):
            self._found.append(found)
            screen.paint(self.body(), foot)

    def body(self) -> RenderableType:
        observed = [found.shown for found in self._found]
        ran = [Text(), Text("What ran", style="title"), _running(self._posed)]
        return Constrain(Group(*question(self._posed), _head(self._posed), *observed, *ran), layout.MEASURE)

    def above_keys(self) -> list[RenderableType]:
        if self._agrees:
            return [Text("The run agrees with the answer.", style="good")]
        return [Text("The run does not agree with the answer; please report it.", style="bad")]

    def keys(self) -> list[Hotkey]:
        more = "back to where you were (or space, p, q, esc, backspace)"
        return [Hotkey("enter", "back", more, also=("space", "p", *GOES_BACK)), HELP]

    def press(self, key: str) -> None:
        self.left = key == "enter"

    def interrupt(self) -> None:
        self.left = True

    @property
    def _agrees(self) -> bool:
        return all(found.agrees for found in self._found)


def question(posed: Posed) -> list[RenderableType]:
    """Draw the question of a proof with its values, and its code unless the proof runs that code."""
    asked = posed.question
    parts: list[RenderableType] = [prose(asked.ask, "bold"), Text()]
    if asked.code and asked.code.strip() not in _source(posed):
        parts += [layout.indented(code(asked.code)), Text()]
    return parts


@dataclass(frozen=True, slots=True)
class _ProofOutcome:
    """One observation of a proof, and whether it agrees with the answer."""

    shown: RenderableType
    agrees: bool = True


def observe(posed: Posed) -> Iterator[_ProofOutcome]:
    """Run a proof, and yield its observations one by one."""
    asked, runner = posed.question, content_runner.ProofRunner()
    if _each_option_runs(asked):
        for option in asked.options:
            observed = runner.observe(posed, content_runner.code_of(option))
            holds = content_runner.answers(asked, observed)
            yield _ProofOutcome(_line(option, holds=holds, more=_said(asked, observed)), holds == option.right)
        return
    if asked.kind is Kind.SPOT:
        yield from _before_and_after(posed, runner)
        return
    observed = runner.observe(posed, _lines_in_order(asked))
    yield _ProofOutcome(
        _observed(asked, observed),
        not (asked.lines and content_runner.inserts(asked)) or content_runner.answers(asked, observed),
    )
    for option in asked.options:
        holds = content_runner.agrees(asked, option, observed)
        yield _ProofOutcome(_line(option, holds=holds), holds == option.right)
    if asked.kind in (Kind.NUMBER, Kind.OUTPUT):
        yield _answer(posed, observed)


def _before_and_after(posed: Posed, runner: content_runner.ProofRunner) -> Iterator[_ProofOutcome]:
    """Run the script of a `spot` question as it is, and with the line at fault fixed."""
    asked = posed.question
    number, fixed = fault_line(asked) + 1, fixed_script(asked)
    for script, what, holds in (
        (asked.code, [Text("as it is")], content_runner.answers),
        (fixed, [Text(f"with line {number} fixed:"), code(asked.fix)], content_runner.is_fixed),
    ):
        observed = runner.observe(posed, script)
        mark = Text("✓", style="good") if holds(asked, observed) else Text("✗", style="bad")
        shown = layout.columns([(mark, Group(*what, _observed(asked, observed)))], gap=1)
        yield _ProofOutcome(shown, holds(asked, observed))


def _head(posed: Posed) -> RenderableType:
    """Draw where a proof runs, and what stands for the answer in its code."""
    asked = posed.question
    on_ranks = f"{plural(posed.ranks, 'rank')} on CPU over Gloo"
    head = Text("a calculation" if question_view.is_calculation(asked) else on_ranks, style="accent")
    each = f"It runs once for each answer, put in place of {content_runner.PLACE}."
    return Group(head, Text(each), Text()) if _each_option_runs(asked) else head


def _running(posed: Posed) -> RenderableType:
    ran = posed.question.proof
    if isinstance(ran, DemoProof):
        return Group(code(" ".join(("demo", ran.demo, *ran.args))), Text())
    return Group(code(_source(posed)), Text())


def _source(posed: Posed) -> str:
    """The code that runs; it is empty for a demo."""
    is_code = isinstance(posed.question.proof, CodeProof)
    return content_runner.source(posed, _lines_in_order(posed.question)) if is_code else ""


def _each_option_runs(asked: Question) -> bool:
    return content_runner.inserts(asked) and bool(asked.options)


def _lines_in_order(asked: Question) -> str | None:
    return "\n".join(line.text for line in asked.lines) if content_runner.inserts(asked) and asked.lines else None


def _said(asked: Question, observed: content_runner.Observed) -> str:
    """What was observed; a calculation runs once, and not on ranks."""
    said = str(observed)
    return said.replace("every rank prints", "it prints", 1) if question_view.is_calculation(asked) else said


def _observed(asked: Question, observed: content_runner.Observed) -> Text:
    texts = set(observed.printed.values())
    if observed.hung or observed.raised or observed.failed or (len(texts) == 1 and "\n" not in min(texts)):
        return Text(f"observed: {plain(_said(asked, observed))}", style="head")
    if len(texts) == 1:
        who = "it" if question_view.is_calculation(asked) else "every rank"
        return Text(f"observed: {who} prints\n{_below(min(texts), 2)}", style="head")
    lines = [f"rank {rank}  {_below(text, len(f'rank {rank}  ')).lstrip()}" for rank, text in observed.printed.items()]
    return Text("observed:\n" + "\n".join(lines), style="head")


def _below(text: str, columns: int) -> str:
    """Indent all lines of a text."""
    return textwrap.indent(plain(text), " " * columns)


def _line(option: Option, *, holds: bool, more: str = "") -> RenderableType:
    mark = Text(f"{'✓ right':11}", style="good") if holds else Text("✗ wrong    ", style="quiet")
    text = code(option.text) if option.code else prose(option.text)
    return layout.columns([(mark, Group(text, *([Text(plain(more), style="quiet")] if more else [])))], gap=1)


def _answer(posed: Posed, observed: content_runner.Observed) -> _ProofOutcome:
    """Compare a computed or printed answer with the observation."""
    asked = posed.question
    if asked.kind is Kind.NUMBER:
        tolerance = max(asked.tolerance, 1e-5)  # what is printed may be rounded
        held = content_runner.all_close(posed.numbers[0], tolerance, observed)
    else:
        held = content_runner.prints(asked, asked.answer, observed)
    mark = ("✓ ", "good") if held else ("✗ ", "bad")
    if "\n" in asked.answer:
        return _ProofOutcome(Text.assemble(mark, f"the answer is\n{_below(asked.answer, 2)}"), held)
    return _ProofOutcome(Text.assemble(mark, plain(f"the answer is {expected(posed)}")), held)


@contextlib.contextmanager
def _unechoed() -> Iterator[None]:
    """Turn the echo of keys off; ctrl+c still interrupts."""
    try:
        before = termios.tcgetattr(sys.stdin.fileno())
    except (OSError, ValueError, termios.error):
        yield
        return
    mode = termios.tcgetattr(sys.stdin.fileno())
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, mode)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)
