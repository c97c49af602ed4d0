"""A sitting of explaining on the screen: the learner writes, compares with a model answer, and ticks the points."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Prompt
from ddpquiz.learning import explain, log_rows
from ddpquiz.learning.explain import CheckedPoint, ExplainAction, Explaining, Explanation, Opinion, Toggle, WriteLine
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.editor import edit
from ddpquiz.terminal.kit.key_screen import HELP, QUIT, Hotkey, note_lines
from ddpquiz.terminal.kit.keys import pasted
from ddpquiz.terminal.kit.layout import bullets, columns, header, indented, section
from ddpquiz.terminal.kit.style import labeled, plain, prose
from ddpquiz.terminal.kit.text_area import TextArea
from ddpquiz.terminal.kit.typing_screen import TypingScreen, command_line
from ddpquiz.terminal.sittings.sitting import DEMO, FLAG, ByLines, SittingContext, SittingScreen

# The points of an explanation: the model answer to compare with, and which points are ticked, by whom.

_HOW = "Compare your text with the model answer. To tick a point that you made, or to untick it, press its number."
_HOW_BY_PROGRAM = "Your program ticked these points. You decide: press a number to change its tick."
_NOT_SCORED = (
    "Nothing is scored or saved here: compare your text with these points. In a terminal you tick them; in a pipe, "
    "a program that --judge names can do it."
)
_POINTS = "A good answer makes these points"
_TICKED, _OPEN = ("✓ ", "good"), ("○ ", "quiet")


def check(explanation: Explanation) -> list[RenderableType]:
    """Draw a model answer, and each point with its tick and who made it."""
    rows = [
        (Text.assemble(_TICKED if point.made else _OPEN, (f"{number}", "key")), _point(point))
        for number, point in enumerate(explanation.points, 1)
    ]
    how = _HOW_BY_PROGRAM if explanation.opinion else _HOW
    counted = Text(count(explanation), style="head")  # below the points: nobody can have ticked what is not shown yet
    head = Text(_POINTS, style="head")
    return [*_answer(explanation), head, Text(how, style="quiet"), Text(), columns(rows), Text(), counted]


def not_scored(explanation: Explanation) -> RenderableType:
    """Draw a model answer and the points, where nobody can tick them."""
    points = bullets(prose(point.say) for point in explanation.points)
    head = Text(_POINTS, style="head")
    return Group(*_answer(explanation), head, indented(points), Text(), Text(_NOT_SCORED, style="quiet"))


def _answer(explanation: Explanation) -> list[RenderableType]:
    answer = indented(prose(explanation.prompt.answer))
    parts: list[RenderableType] = [Text("A model answer", style="head"), answer, Text()]
    if explanation.opinion and explanation.opinion.remark:
        parts += [Text(plain(explanation.opinion.remark), style="accent"), Text()]
    return parts


def count(explanation: Explanation) -> str:
    """How many points are ticked, and by whom, as a sentence."""
    ticked = f"{explanation.made} of {plural(len(explanation.points), 'point')}"
    if not explanation.opinion:
        return f"You ticked {ticked}."
    if not any(point.changed for point in explanation.points):
        return f"Your program ticked {ticked}."
    yours = sum(point.made and point.changed for point in explanation.points)
    return f"{ticked} are ticked: {explanation.made - yours} by your program, {yours} by you."


def summary(done: Sequence[Explanation]) -> RenderableType:
    """Draw the result of a sitting: how many points were made, and which were left out."""
    if not done:
        return Text("Done: nothing explained.", style="head")
    made, asked = sum(one.made for one in done), sum(len(one.points) for one in done)
    who = "" if any(one.opinion for one in done) else " by you"
    parts: list[RenderableType] = [Text(f"Done: {made} of {asked} points are ticked{who}.", style="head")]
    missed = [prose(point.say) for one in done for point in one.points if not point.made]
    if missed:
        parts += section("Not ticked", bullets(missed))
    concept = done[-1].prompt.concept
    rows = [(f"ddpquiz learn {concept}", "read about it")] if missed else []
    rows.append((f"ddpquiz test {concept}", "find out how well you know it"))
    return Group(*parts, *section("Next", columns((Text(plain(c), style="code"), Text(what)) for c, what in rows)))


def _point(point: CheckedPoint) -> RenderableType:
    if not point.by_program:
        return prose(point.say)
    return Group(prose(point.say), Text("changed by you" if point.changed else "ticked by your program", style="quiet"))


class _Drafts:
    """The texts of earlier sittings, and those of this one that were left for another prompt."""

    def __init__(self, saved: Mapping[str, str]) -> None:
        self._saved = dict(saved)
        self.left: dict[str, str] = {}

    def leave(self, prompt: str, text: str) -> None:
        self.left[prompt] = text.strip()

    def resume(self, prompt: str) -> tuple[str, str]:
        """The unfinished text for a prompt, and a sentence that says so; both are empty if there is no such text."""
        here, before = self.left.pop(prompt, ""), self._saved.pop(prompt, "")
        if not here and not before:
            return "", ""
        return here or before, f"Your unfinished text {'' if here else 'from last time '}is back."


_FINISH = Hotkey(
    "ctrl+d",
    "check",
    "finish, and check your points (or enter on an empty line; ctrl+u clears a line)",
)
EDITOR = Hotkey("e", "editor", "write in your own editor, the one that EDITOR names")
HINT = Hotkey("h", "hint", "a pointer to what a good answer covers")
SKIP = Hotkey("s", "skip", "skip this prompt")
_CONFIRM = Hotkey(
    "enter", "go on", "show the next page; after the last one, confirm the ticks and go on", also=("space",)
)
UNDO = Hotkey("u", "undo", "undo the last explanation or skip, and go on writing")
LEAVE = Hotkey("enter", "leave")
_MOVE = Hotkey("← → ↑ ↓", "move", "move in the text; home, end, backspace, delete and ctrl+u work as well")
HOW = "in your own words; to finish, press ctrl+d, or enter on an empty line"


class ExplainScreen(TypingScreen, SittingScreen):
    """One sitting of explaining."""

    def __init__(
        self,
        context: SittingContext,
        state: Explaining,
        *,
        editor: bool = False,
        drafts: Mapping[str, str] | None = None,
        judge: Callable[[Prompt, str], Opinion] | None = None,
    ) -> None:
        super().__init__(context)
        self.state = state
        self._drafts = _Drafts(drafts or {})
        self._area = TextArea()  # written so far, of the prompt on screen
        self._width = 80  # of the screen
        self._editor = editor  # each prompt opens it by itself
        self._judge = judge  # ticks the points beforehand; may raise UserError
        self._receipts: list[log_rows.Receipt] = []  # of the explanations, in order
        self.by_lines = ExplainByLines(self)
        self._resume_draft()

    @property
    def text(self) -> str:
        return self._area.text

    @text.setter
    def text(self, text: str) -> None:
        self._area = TextArea().insert(text)

    @property
    def begun(self) -> dict[str, str]:
        """The texts to save for the next time, by prompt: empty for those that were explained."""
        begun = {**self._drafts.left, **{one.prompt.key: "" for one in self.state.done}}
        if not self.state.checking and self.state.place < len(self.state.prompts):
            begun[self.state.prompts[self.state.place].key] = self.text.strip()
        return begun

    @property
    def scene(self) -> Hashable:
        return self.state.place, self.state.checking, self.state.stopped

    @property
    def leaving(self) -> tuple[str, ...]:
        """The keys that leave besides q: ctrl+d ends what was begun to be written first."""
        return ("eof",) if self.writing and self.text.strip() else super().leaving

    @property
    def over(self) -> bool:
        return self.state.prompt is None

    @property
    def reading(self) -> bool:
        return self.state.checking

    @property
    def writing(self) -> bool:
        return self.state.prompt is not None and not self.state.checking

    def body(self) -> RenderableType:
        prompt = self.state.prompt
        if prompt is None:
            return Group(self.summary(), Text())
        parts: list[RenderableType] = [self.where(), Text(), prose(prompt.ask, "bold")]
        if explanation := self.state.explanation:
            yours = indented(Text(plain(explanation.text)))
            parts += [Text(), Text("Your text", style="head"), yours, Text(), *check(explanation)]
        else:
            hint = [Text(), labeled("Hint  ", "warn", prompt.hint)] if self.state.hinted else []
            parts += [Text(HOW, style="quiet"), *hint]
        return Group(*parts, Text())

    def above_keys(self) -> list[RenderableType]:
        if not self.writing:
            return []
        return [command_line() if self.escaped else self._area.drawn(self._width)]

    def foot(self, width: int) -> RenderableType:
        self._width = width  # up and down move by the rows that are seen
        return super().foot(width)

    def keys(self) -> list[Hotkey]:
        undo = [UNDO] if self.state.previous else []
        prompt = self.state.prompt
        if prompt is None:
            return [LEAVE, *undo, HELP]
        if self.escaped:
            return self.escape_keys()
        if not self.state.checking:  # enter ends the text too on an empty line, once something is written
            by_enter = self.text.strip() and self._area.on_empty_last_line
            return [replace(_FINISH, key="ctrl+d/enter") if by_enter else _FINISH]
        demo = [DEMO] if self.demo_of(prompt.concept) else []
        toggle = Hotkey(f"1-{len(prompt.points)}", "tick", "tick a point that you made, or remove a tick")
        return [_CONFIRM, toggle, *undo, *demo, FLAG, HELP, QUIT]

    def escape_keys(self) -> list[Hotkey]:
        prompt = self.state.prompt
        hint = [HINT] if prompt and prompt.hint and not self.state.hinted else []
        demo = [DEMO] if prompt and self.demo_of(prompt.concept) else []
        undo = [UNDO] if self.state.previous else []
        return [*hint, EDITOR, SKIP, *undo, *demo, FLAG, HELP, QUIT]

    def all_keys(self) -> list[Hotkey]:
        return [*super().all_keys(), *([_MOVE] if self.writing and not self.escaped else [])]

    def enter(self, key: str) -> None:
        text = pasted(key)
        if text is not None:
            self._area = self._area.insert(text)
        elif key == "ctrl+d" or (key == "enter" and self._area.on_empty_last_line):
            self.finish()
        else:
            self._area = self._area.key(key, self._width)

    def changes_text(self, key: str) -> bool:
        return self.writing and self._area.key(key, self._width) != self._area

    def press(self, key: str) -> None:
        prompt = self.state.prompt
        match key:
            case "u":
                self._do(ExplainAction.UNDO)
            case _ if prompt is None:
                self.left = key in ("enter", "q", "escape")
            case "q":
                self._do(ExplainAction.STOP)
                self.left = True
            case "d":
                self.run_demo(self.demo_of(prompt.concept))
                self._do(ExplainAction.BACK)
            case "f":
                self.flag(prompt.key)
            case _ if self.state.checking:
                self._press_while_checking(key)
            case "h" | "s":
                self._do(ExplainAction.HINT if key == "h" else ExplainAction.SKIP)
            case "e":
                self.edit()

    def _press_while_checking(self, key: str) -> None:
        if key == "enter":
            self._do(ExplainAction.NEXT)
            if self._editor:
                self.edit()
        elif key.isdecimal() and key != "0":
            self._do(Toggle(int(key) - 1))

    def edit(self) -> None:
        """Let the learner write in an editor; the saved text is the explanation."""
        prompt = self.state.prompt
        if prompt is None:
            return

        def write() -> None:
            self.text = edit(prompt.ask, self.text)

        self._leave(write)
        if not self.note:
            self.finish()

    def summary(self) -> RenderableType:
        return summary(self.state.done)

    def where(self) -> Text:
        prompt = self.state.prompts[self.state.place]
        title = self.context.catalog.concept(prompt.concept).title
        return header(f"Explain {self.state.place + 1}/{len(self.state.prompts)}", title)

    def finish(self) -> None:
        if text := self.text.strip():
            self._do(WriteLine(text, self._opinion(text)))
        else:
            self.note = "Write a sentence or two first; esc s skips."

    def compare(self, text: str) -> Explanation:
        """Take a text where nobody can tick its points; it is saved only if the learner's program ticked them."""
        assert self.state.prompt is not None  # noqa: S101
        opinion = self._opinion(text)
        if opinion:
            self._do(WriteLine(text, opinion))
            return self.state.done[-1]
        return explain.explanation(self.state, self.state.prompt, text, None, self.context.clock())

    def _opinion(self, text: str) -> Opinion | None:
        """Ask the learner's program about a text; None without one, and when it fails, which becomes the note."""
        judge, prompt, opinions = self._judge, self.state.prompt, list[Opinion]()
        if judge and prompt:
            self._leave(lambda: opinions.append(judge(prompt, text)))
        return opinions[0] if opinions else None

    def _do(self, event: explain.Event) -> None:
        """Do a step, and save what it changed before anything else is shown."""
        now = self.context.clock()
        after, (added, removed) = explain.step(self.state, event, now)
        before = self._receipts.pop() if removed else None
        if added:
            points = [log_rows.PointRow(each.say, each.by_program, each.changed) for each in added.points]
            row = log_rows.ExplanationRow(item=added.prompt.key, took=added.took, given=added.text, points=points)
            self._receipts.append(self.context.progress.explain(row, now, instead_of=before))
        elif before:
            self.context.progress.undo(before, now)
        moved = after.place != self.state.place
        if moved and self.writing:
            self._drafts.leave(self.state.prompts[self.state.place].key, self.text)
        if moved or after.checking != self.state.checking:
            self.text = removed.text if removed and not added else ""
        self.state = after
        if moved and not self.text:
            self._resume_draft()

    def _resume_draft(self) -> None:
        """Put back what was begun for the prompt on screen, in this sitting or the last time."""
        if self.state.prompt:
            text, note = self._drafts.resume(self.state.prompt.key)
            self.text, self.note = text or self.text, note or self.note


_HOW_BY_LINES = "in your own words, in one line or several; to finish, enter an empty line"


class ExplainByLines(ByLines[ExplainScreen]):
    """A line is a piece of the text, which an empty one ends, or the letter of a key, as in `:h`."""

    def new(self) -> RenderableType:
        screen, state = self.screen, self.screen.state
        if state.explanation:
            return Group(*check(state.explanation))
        assert state.prompt is not None  # noqa: S101
        parts: list[RenderableType] = [Text(), screen.where(), Text(), prose(state.prompt.ask, "bold")]
        parts.append(Text(_HOW_BY_LINES, style="quiet"))
        if screen.text:  # from before; lines are added to it
            parts += [Text(), indented(Text(plain(screen.text), style="quiet")), Text()]
        return Group(*parts, *(note_lines(screen.note) if state.previous is None else []))

    def hotkeys(self) -> list[Hotkey]:
        keys = [Hotkey("empty line", "check") if key is _FINISH else key for key in super().hotkeys()]
        return [] if self.screen.writing and self.screen.text else keys

    def obey(self, line: str) -> None:
        screen = self.screen
        key = line.removeprefix(":")
        screen.note = ""
        if screen.writing and (key == line or len(key) != 1):
            if not line:
                screen.finish()
            else:
                screen.text = "\n".join((*filter(None, (screen.text,)), line))
            return
        screen.obey(key or "enter")
        state = screen.state
        if key == "h" and state.hinted and state.prompt:
            screen.note = state.prompt.hint
        elif state.explanation and key.isdecimal():
            screen.note = count(state.explanation)
