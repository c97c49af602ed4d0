"""The steps of a lesson on the screen: read, answer, run the listing, change a line of it, watch the demo.

A step that is done is saved at once, so that the lesson goes on there however it was left. What starts ranks is
imported when something runs: the first step does not wait for it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Card, Concept, Kind, LessonStep, LineChange, Question, Shows
from ddpquiz.curriculum.listing import changed_code, whole_script
from ddpquiz.curriculum.posed_question import Posed, expected
from ddpquiz.errors import UserError
from ddpquiz.learning.guided_path import StageName, StageState, has_seen, save_seen, step_item
from ddpquiz.learning.schedule import Grade, Schedule, study_day
from ddpquiz.paths import data_dir, put_aside
from ddpquiz.terminal.kit.editor import open_file
from ddpquiz.terminal.kit.key_screen import HELP, Hotkey, leave_to
from ddpquiz.terminal.kit.layout import Barred, Brief, columns, header, shown_path, shown_torchrun, spaced
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import code, console, plain, prose
from ddpquiz.terminal.kit.typing_screen import command_line
from ddpquiz.terminal.pages.lesson_steps import (
    WAITS,
    changed_lines,
    changed_listing,
    diff,
    fits_beside,
    fits_screen,
    framed,
    listing_view,
    markdown_of,
    result_parts,
    text_parts,
    values_table,
)
from ddpquiz.terminal.sittings import question_view
from ddpquiz.terminal.sittings.more_screen import MORE, MoreScreen, count_pages
from ddpquiz.terminal.sittings.question_view import AnswerScreen, Entry
from ddpquiz.terminal.sittings.rank_runner import DemoOptions
from ddpquiz.terminal.sittings.sitting import LOOK, PROOF, SittingContext, SittingScreen

if TYPE_CHECKING:
    from ddpquiz.learning.guided_path import PathHistory
    from ddpquiz.learning.quiz import Answer, Event, Quiz
    from ddpquiz.ranks.content_runner import CodeRun, Observed
    from ddpquiz.terminal.kit.keys import Keys

_LOOK = 0.03  # seconds between two looks at the keys while ranks run
_AROUND = 4  # rows around a page that nobody types on: header, keys, and an empty one beside each
_STAGES = Hotkey("esc", "stages", "back to the stages; the lesson goes on at this step")
_LEAVE = Hotkey("q", "leave", "leave; the lesson goes on at this step")
_BACK = Hotkey("u", "back", "look back at the page before this one; nothing is lost")
_QUESTION = Hotkey("u", "question", "look at the question again: all its options, and why each is right or wrong")
_TEXT = Hotkey("u", "back", "look at the text again; what you have entered stays")
_SKIP = Hotkey("s", "skip", "skip the rest of this step")
_REASONS = Hotkey("space", "all reasons", "show why the other answers are wrong, the steps to the answer, and a check")
_EDIT = Hotkey("e", "editor", "open the whole script in your editor, and run what you saved")
_ORIGINAL = Hotkey("o", "original", "bring the code of the lesson back; your version is kept beside it")
_STOP = Hotkey("esc", "back", "end the run, and go back to the step")
_DEMO = Hotkey("d", "demo", "run the demo again, and look at all of it: every value, the time line, the claims")
_OTHER = "This is not what the lesson expects to see here; another version of torch may be the reason."


class _Page(StrEnum):
    """What a step consists of, in this order."""

    TEXT = auto()
    LISTING = auto()  # on a page of its own if it does not fit below the text
    ASK = auto()
    RESULT = auto()  # of the listing
    CHANGED = auto()  # of the listing with its line changed
    DEMO = auto()
    SEEN = auto()  # in place of a demo that the learner has predicted and seen elsewhere


@dataclass
class _Visit:
    """What the learner has done in a step, in this sitting."""

    quiz: Quiz | None = None  # of the question that the step asks
    entry: Entry = field(default_factory=Entry)
    is_turned: bool = False  # the back of the card that the step asks is shown
    grade: Grade | None = None
    observed: dict[_Page, Observed] = field(default_factory=dict)
    values: Mapping[str, Mapping[int, str]] | None = None  # what the demo printed
    reads_reasons: bool = False  # all reasons are shown after an answer
    fitting: dict[tuple[int, ...], bool] = field(default_factory=dict)  # by size of the screen, and hints if any count

    @property
    def answer(self) -> Answer | None:
        return self.quiz.answer if self.quiz else None


@dataclass(frozen=True)
class _Own:
    """The learner's own version of a listing, and what it showed: None until it has run."""

    script: str
    observed: Observed | None = None


@dataclass(frozen=True)
class _Started:
    """A script that runs: what shows its result, and its run once it has begun."""

    page: _Page | None  # None: the learner's own version
    script: str
    run: CodeRun | None = None


class LessonScreen(AnswerScreen, SittingScreen):
    """The steps of one lesson, from `step` on. `finished` is True once all were gone through.

    `leads_to` is the screen to which `q` leads, past the stages; "" is the shell.
    """

    leads_to = ""

    def __init__(self, context: SittingContext, concept: Concept, history: PathHistory, step: int = 0) -> None:
        super().__init__(context)
        self.concept, self.history = concept, history
        self.number = step
        self.finished = False
        self.leaves_path = False  # q was pressed, and not esc
        self._at = 0  # the page of the step
        self._visits: dict[int, _Visit] = {}
        self._own: _Own | None = None  # what is on the screen in place of the page
        self._started: _Started | None = None
        self._fitting: dict[tuple[int, int, int], bool] = {}  # by step and size of the screen
        self._more_pages: dict[tuple[int, int], int] = {}  # by size of the screen
        self._since = context.clock()  # when this step began

    def go_on_in(self, context: SittingContext, step: int) -> bool:
        """Come back to what was done in this step before the learner left; False if another step is open now."""
        if self.number != step or self._started:
            return False
        self.context, self._since = context, context.clock()
        self.left = self.leaves_path = self.helping = self.escaped = False
        return True

    # Where the learner is.

    @property
    def _place(self) -> str:
        return f"Lesson, step {self.number + 1} of {len(self.concept.steps)}"

    @property
    def step(self) -> LessonStep:
        return self.concept.steps[self.number]

    @property
    def visit(self) -> _Visit:
        return self._visits.setdefault(self.number, _Visit())

    @property
    def page(self) -> _Page:
        return self.pages[self._at]

    @property
    def pages(self) -> list[_Page]:
        """The pages of this step."""
        step = self.step
        seen = step.demo is not None and has_seen(self.concept, step.demo, self.history)
        asks = bool(step.ask) and not (seen and not step.listing)
        found = {
            _Page.TEXT: True,
            _Page.LISTING: step.listing is not None and not self._fits,
            _Page.ASK: asks,
            _Page.RESULT: step.listing is not None,
            _Page.CHANGED: step.listing is not None and step.listing.change is not None,
            _Page.DEMO: step.demo is not None and not seen,
            _Page.SEEN: step.demo is not None and seen,
        }
        return [page for page, is_here in found.items() if is_here]

    @property
    def _fits(self) -> bool:
        size = console().size
        known = (self.number, size.width, size.height)
        if known not in self._fitting:  # it is drawn to be measured
            self._fitting[known] = fits_beside(self.step, size.width, size.height)
        return self._fitting[known]

    @property
    def asked(self) -> Card | Question | None:
        return self.concept.asked_in(self.step)

    @property
    def _predicts(self) -> bool:
        """Whether what is asked is judged by what runs next."""
        return isinstance(self.asked, Question) and (self.step.listing is not None or self.step.demo is not None)

    @property
    def scene(self) -> Hashable:
        visit = self.visit
        busy = self._started is not None
        own = id(self._own) if self._own else 0
        reads = visit.reads_reasons
        return self.number, self._at, visit.answer is None, visit.is_turned, visit.grade, own, reads, busy

    @property
    def over(self) -> bool:
        return self.finished

    @property
    def added(self) -> Hashable:
        return self.visit.quiz.hints if self.visit.quiz else 0

    @property
    def turning(self) -> tuple[str, ...]:
        return () if self._asks_now or self._is_brief else ("enter", "space")

    @property
    def _is_brief(self) -> bool:
        """Whether an answer is shown without what the screen has no room for: the reasons of all other answers."""
        answer = self.visit.answer
        if self.page is not _Page.ASK or self._own or self.visit.reads_reasons:
            return False
        if answer is None or answer.gave_up:
            return False
        fitting, size = self.visit.fitting, _size()
        if size not in fitting:  # it is drawn to be measured
            whole = [*self._says(answer), *question_view.stem(answer.posed.question), *question_view.judged(answer)]
            fitting[size] = _fits([Group(*whole)]) or not (answer.right or any(map(_fits, self._short_pages(answer))))
        return not fitting[size]

    def _short_pages(self, answer: Answer) -> list[list[RenderableType]]:
        """Draw an answer in short, from the longest page to the shortest: the code of the question goes first.

        A wrong answer is drawn with the steps if there is room for them, or if nothing else explains it; a right one
        is, too, if there is room and the lesson says nothing after it.
        """
        question = answer.posed.question
        above, ask = Group(*self._says(answer), Text()), prose(question.ask, "bold")
        shown: list[RenderableType] = [*_from_whole_to_brief(ask)]
        if question.code and question.kind is not Kind.SPOT:
            code_ = question_view.code_of(question)
            shown[:0] = Group(ask, Text(), code_), Group(ask, code_)
        steps = [] if answer.right and self.step.then else [True]
        if answer.right or question_view.is_explained(answer):
            steps.append(False)
        return [
            [Group(above, asked, Text(), *question_view.short_view(answer, steps=with_steps))]
            for with_steps in steps
            for asked in shown
        ]

    @property
    def _asks_now(self) -> bool:
        """Whether a question is not answered, or a card not graded."""
        if self.page is not _Page.ASK or self._own:
            return False
        return self._grades if isinstance(self.asked, Card) else self.answering is not None

    # What is drawn.

    def body(self) -> RenderableType:
        head = header(self._place, self.concept.title)
        return Group(head, Text(), self._drawn(), Text())

    def _drawn(self) -> RenderableType:
        step = self.step
        if self._own:
            return framed(self._own_result(self._own))
        match self.page:
            case _Page.TEXT:
                parts = text_parts(step)
                return framed(parts if self._fits else parts[:1])
            case _Page.LISTING:
                return framed([listing_view(step.listing.code if step.listing else "")])
            case _Page.ASK:
                return framed([self._drawn_item()])
            case _Page.SEEN:
                seen = prose("You have predicted and seen this demo already; `d` shows it again. Below is its result.")
                return framed([seen, *([markdown_of(step.then)] if step.then else [])])
            case _Page.DEMO:
                return framed(self._demo_result())
            case _:
                return framed(self._result(self.page))

    def _drawn_item(self) -> RenderableType:
        asked, visit = self.asked, self.visit
        if isinstance(asked, Card):
            back: list[RenderableType] = [Text(), Barred(prose(asked.back))] if visit.is_turned else []
            return Group(prose(asked.front, "bold"), *back)
        if answer := visit.answer:
            return self._judged(answer, brief=self._is_brief)
        state = self._quiz()
        assert state.posed is not None  # noqa: S101  # it has one question, which is not answered
        return self._below_listing(Group(*question_view.asked(state.posed, state.hints, self.entry.text)))

    def _below_listing(self, asked: RenderableType) -> RenderableType:
        """Draw a question below the listing that it is about, if it has no code of its own and both fit."""
        listing, question = self.step.listing, self.asked
        if listing is None or (isinstance(question, Question) and question.code):
            return asked
        both = Group(listing_view(listing.code), Text(), asked)
        fitting, size = self.visit.fitting, (*_size(), self._quiz().hints)
        if size not in fitting:  # it is drawn to be measured
            fitting[size] = _fits([both, *([Text()] if self.typing else [])])
        return both if fitting[size] else asked

    def _judged(self, answer: Answer, *, brief: bool = False) -> RenderableType:
        """Draw the verdict on an answer, with all reasons or in short."""
        if brief:
            return Group(*_fitting(*self._short_pages(answer)))
        above = Group(*self._says(answer), Text())
        view = question_view.verdict_view(answer, lambda width: Group(Text("\n\n"), above, self.foot(width)))
        return Group(above, view)

    def _says(self, answer: Answer) -> list[RenderableType]:
        """Draw the verdict on an answer, and what the step says after it, unless a run comes first."""
        then = [markdown_of(self.step.then)] if self.step.then and not self._predicts else []
        return spaced([question_view.verdict(answer, counts=False), *then])

    def _result(self, page: _Page) -> list[RenderableType]:
        """Draw what the listing showed, as it is or with its line changed."""
        listing, visit = self.step.listing, self.visit
        observed = visit.observed.get(page)
        if listing is None or observed is None:
            return [_not_run()]
        change = listing.change if page is _Page.CHANGED else None
        shows, then = (change.shows, change.then) if change else (listing.shows, self.step.then)
        said = self._prediction() if page is _Page.RESULT else []
        parts = _observed_parts(observed, shows, then, said)
        whole = [changed_listing(listing.code, change) if change else listing_view(listing.code), *parts]
        brief = [*([diff(change)] if change else []), *parts]
        if page is not _Page.RESULT:
            return _fitting(whole, brief)
        return _fitting(*([*asked, *rest] for rest in (whole, brief) for asked in self._questions()))

    def _questions(self) -> list[list[RenderableType]]:
        """Draw what was asked before the run, whole and in short: who sees the result need not remember it."""
        answer = self.visit.answer
        if answer is None or not self._predicts:
            return [[]]
        asked = prose(answer.posed.question.ask, "quiet")
        return [[each] for each in _from_whole_to_brief(asked)]

    def _prediction(self) -> list[RenderableType]:
        """Draw the answer that was given before the run, what is right, and why the answer is not."""
        answer = self.visit.answer
        if answer is None or answer.gave_up or not self._predicts:
            return []
        given = question_view.answer_words(answer.posed, answer.given, answer.verdict)
        options = answer.posed.question.options
        shown = code if "\n" in given or answer.posed.question.kind is Kind.OUTPUT else prose
        right = [option.text for option in options if option.right] or [expected(answer.posed)]
        rows = [] if answer.right else [(Text("✗ yours", style="bad"), shown(given))]
        rows += [(Text("✓ right", style="good"), shown(each)) for each in right]
        return [Group(columns(rows), *map(prose, answer.verdict.whys))]

    def _demo_result(self) -> list[RenderableType]:
        demo, values = self.step.demo, self.visit.values
        if demo is None or values is None:
            return [Text("The demo has not run to its end yet: press d.", style="quiet")]
        then = [markdown_of(self.step.then)] if self.step.then else []
        shown = [values_table(demo.labels, values, console().width)] if any(values.values()) else []
        rest = [*shown, *self._prediction(), *then]
        return _fitting(*([*asked, *rest] for asked in self._questions()))

    def _own_result(self, own: _Own) -> list[RenderableType]:
        """Draw what the learner's own version showed, with the lines that differ from the listing if they fit."""
        listing = self.step.listing
        ranks = listing.ranks if listing else 1
        line = f"{shown_torchrun()} --standalone --nproc-per-node {ranks} {shown_path(self._file)}"
        parts = _own_parts(own.observed) if own.observed else [] if self._started else [_not_run()]
        above = Group(Text("Your version. To run it without ddpquiz:", style="quiet"), code(line))
        changed = changed_lines(whole_script(listing.code) if listing else "", own.script)
        return _fitting([above, *([changed] if changed else []), *parts], [above, *parts])

    def above_keys(self) -> list[RenderableType]:
        if started := self._started:
            limit = f", for at most {started.run.limit:g} s" if started.page is None and started.run else ""
            return [Text(f"{self._running}{limit} · ctrl+c stops it", style="accent")]
        if self._is_graded_now and isinstance(self.asked, Card):
            from ddpquiz.terminal.sittings.study_screen import buttons  # most steps ask no card

            schedule = Schedule(self.context.progress.weights())
            return [buttons(schedule.preview(self.asked.key, None, study_day(self.context.clock())))]
        if posed := self.typing:
            return [command_line() if self.escaped else question_view.field(posed.question, self.entry)]
        return []

    @property
    def _running(self) -> str:
        return "running on real ranks" if self._started and self._started.run else "loading torch (only once)"

    # The keys.

    def keys(self) -> list[Hotkey]:
        if self._started:
            return [_STOP, HELP, self.leave]
        if self.page is _Page.ASK and self.answering:
            return self.answer_keys(self.answering.question)
        return [*self._forward_keys(), *self._page_keys(), HELP, _STAGES, self.leave]

    @property
    def leave(self) -> Hotkey:
        return leave_to(self.leads_to, "the lesson goes on at this step") if self.leads_to else _LEAVE

    def escape_keys(self) -> list[Hotkey]:
        state = self._quiz()
        left = len(state.posed.question.hints) - state.hints if state.posed else 0
        hint = [Hotkey("h", f"hint ({left})", f"show a hint ({left} left)")] if left else []
        stages = [] if self.typing else [_STAGES]
        return [*hint, _TEXT, Hotkey("x", "solution", "show the solution"), _SKIP, HELP, *stages, self.leave]

    def all_keys(self) -> list[Hotkey]:
        reads = not (self._is_last or self._started or self.answering)
        early = [self._more_key] if self.concept.more and reads else []
        return [*self._grade_keys(), *early, *super().all_keys()]

    def _grade_keys(self) -> list[Hotkey]:
        """The keys that grade a card; they are drawn above the others, each with the time until the card comes back."""
        if not self._is_graded_now:
            return []
        from ddpquiz.terminal.sittings.study_screen import NAMES  # most steps ask no card

        return [Hotkey(str(number), NAMES[grade]) for number, grade in enumerate(Grade, 1)]

    def _forward_keys(self) -> list[Hotkey]:
        """The key that goes on, named after what comes next."""
        if self._own:
            return [Hotkey("enter", "go on", "back to the step", also=("space",))]
        if self.page is _Page.ASK and isinstance(self.asked, Card) and self.visit.grade is None:
            if not self.visit.is_turned:
                return [Hotkey("enter", "show the back", "turn the card over (or space)", also=("space",))]
            if self._grades:
                return [Hotkey("enter", "good", "you recalled it (or space)", also=("space",))]
        names = {
            _Page.LISTING: "show the code",
            _Page.ASK: "question",
            _Page.RESULT: "run it and see" if self.step.text.rstrip().endswith("?") else "run it",
            _Page.CHANGED: "change the line",
            _Page.DEMO: "run the demo",
            _Page.SEEN: "go on",
        }
        following = self.pages[self._at + 1 : self._at + 2]
        does = names[following[0]] if following else "finish" if self._is_last else "next step"
        if following and self._was_seen(following[0]):
            does = "your answer" if following == [_Page.ASK] else "the result"
        change = self._change if following == [_Page.CHANGED] else None
        more = f"put `{change.to.strip()}` in place of `{change.line}`, and run it" if change else ""
        reasons = [_REASONS] if self._is_brief else []
        return [Hotkey("enter", does, more, also=() if reasons else ("space",)), *reasons]

    def _was_seen(self, page: _Page) -> bool:
        """Whether the learner has looked back from a page that has an answer or a result."""
        visit = self.visit
        if page is _Page.ASK:
            return visit.answer is not None
        return page in visit.observed or (page is _Page.DEMO and visit.values is not None)

    def _page_keys(self) -> list[Hotkey]:
        page, answer = self.page, self.visit.answer
        has_run = self._own is not None or page in (_Page.RESULT, _Page.CHANGED)
        runs = (has_run or page in (_Page.TEXT, _Page.LISTING)) and self.step.listing is not None and not self._must_ask
        after_question = answer is not None and self.pages[max(0, self._at - 1)] is _Page.ASK and not self._own
        keys = [
            Hotkey("r", "again", "run the code on the screen again, on real ranks") if runs and has_run else None,
            _DEMO if self.step.demo and page in (_Page.DEMO, _Page.SEEN) else None,
            PROOF if answer and answer.posed.question.proof and page is not _Page.TEXT else None,
            (_QUESTION if after_question else _BACK) if self._at or self.number or self._own else None,
            _EDIT if runs else None,
            _ORIGINAL if self._own else None,
            self._more_key if self.concept.more and self._is_last else None,  # further pages before would only daunt
            _SKIP,
            LOOK,
        ]
        return [*filter(None, keys)]

    @property
    def _is_last(self) -> bool:
        return self.number + 1 == len(self.concept.steps)

    @property
    def _more_key(self) -> Hotkey:
        """The key that shows more, named with its length where there is room for that."""
        pages = self._more_pages.get(_size(), 0)
        return Hotkey("m", f"more: {pages} pages" if pages > 1 and self.page is _Page.TEXT else "more", MORE)

    @property
    def _must_ask(self) -> bool:
        """Whether the step asks something first, which is not answered yet."""
        return _Page.ASK in self.pages[self._at :] and self.visit.answer is None and self.visit.grade is None

    @property
    def _change(self) -> LineChange | None:
        return self.step.listing.change if self.step.listing else None

    def press(self, key: str) -> None:
        match key:
            case "q":
                self.left = self.leaves_path = True
            case _ if self._started:
                self._press_while_running(key)
            case "escape":
                self.left = True
            case "m" if self.concept.more:
                self._leave(lambda: MoreScreen(self.context, self.concept, back_to="the step").show(console()))
            case "u":
                self._back()
            case "/":
                self.look_up()
            case "s":
                skipped = self.number
                self._end_step(StageState.SKIPPED)
                self.note = "" if self.left else f"The rest of step {skipped + 1} is skipped; u goes back to it."
            case _ if not self._press_what_runs(key):
                self._press_on_page(key)

    def missing(self, key: str, offered: Collection[Hotkey]) -> str:
        said = super().missing(key, offered)
        return f"Wait for the result: {self._running}; esc ends the run." if said and self._started else said

    def _press_what_runs(self, key: str) -> bool:
        """Obey a key that runs something; return whether it is one."""
        runs = self.step.listing is not None and not self._must_ask
        match key:
            case "e" if runs:
                self._edit()
            case "r" if runs:
                self._run_again()
            case "o" if self._own:
                self._restore()
            case "d" if self.page in (_Page.DEMO, _Page.SEEN):
                self._demo()
            case "p" if self.visit.answer and self.page is not _Page.TEXT:
                self._prove(self.visit.answer)
            case _:
                return False
        return True

    def _press_on_page(self, key: str) -> None:
        if self.page is _Page.ASK and not self._own:
            self._press_on_item(key)
        elif key in ("enter", "space"):
            self._go_on()

    def _press_while_running(self, key: str) -> None:
        if key == "escape":
            self.stop()
            self._own = None
            self.note = "stopped"

    def _press_on_item(self, key: str) -> None:
        asked = self.asked
        if isinstance(asked, Card):
            self._press_on_card(asked, key)
        elif self.visit.answer:
            if key == "space" and self._is_brief:
                self.visit.reads_reasons = True
            elif key in ("enter", "space"):
                self._go_on()
        elif key in ("h", "x"):
            from ddpquiz.learning.quiz import QuizAction

            self._do(QuizAction.HINT if key == "h" else QuizAction.GIVE_UP)
        elif not self.typing:
            self.enter(key)

    def _press_on_card(self, card: Card, key: str) -> None:
        visit = self.visit
        if not visit.is_turned:
            visit.is_turned = key in ("enter", "space")
        elif self._is_graded_now:
            grade = Grade(int(key)) if key in ("1", "2", "3", "4") else Grade.GOOD
            if key in ("1", "2", "3", "4", "enter", "space"):
                now = self.context.clock()
                self.context.progress.review(card.key, grade, now, now - now)
                visit.grade = grade
                self._go_on()
        elif key in ("enter", "space"):
            self._go_on()

    @property
    def _is_graded_now(self) -> bool:
        """Whether the next key grades the card of this step."""
        asks = self.page is _Page.ASK and isinstance(self.asked, Card)
        return asks and self.visit.is_turned and self.visit.grade is None and self._grades

    @property
    def _grades(self) -> bool:
        """Whether the card is new to the learner, so that its grade begins its schedule."""
        asked = self.asked
        memory = self.context.progress.memories(self.concept.id).get(asked.key) if asked else None
        return self.visit.grade is None and (memory is None or memory.first is None)

    # Going from page to page.

    def _go_on(self) -> None:
        if self._own:
            self._own = None
            return
        if self._at + 1 == len(self.pages):
            self._end_step(StageState.DONE)
            return
        following = self.pages[self._at + 1]
        if following in (_Page.RESULT, _Page.CHANGED) and following not in self.visit.observed:
            self._start(following)
        else:
            self._to(self._at + 1)
            if following is _Page.DEMO and self.visit.values is None:
                self._demo(brief=bool(self.step.demo and self.step.demo.labels))

    def _to(self, page: int) -> None:
        if self.page is _Page.ASK:
            self.visit.entry = self.entry
        self._at = page
        self._own = None
        self.entry = self.visit.entry if self.page is _Page.ASK else Entry()

    def _back(self) -> None:
        if self._own:
            self._own = None
        elif self._at:
            self._to(self._at - 1)
        elif self.number:
            self._to(0)
            self.number -= 1
            seen = self._visits.get(self.number, _Visit())
            self._to(len(self.pages) - 1 if seen.observed or seen.answer or seen.values else 0)
        else:
            self.note = "This is the first page."

    def _end_step(self, state: StageState) -> None:
        """Save that a step is over, and go on with the next one; the last one ends the lesson."""
        progress, now = self.context.progress, self.context.clock()
        item = step_item(self.concept, self.number)
        lesson = f"{self.concept.id}/{StageName.LESSON}"
        known = self.history.stages
        if known.get(item) not in (state, StageState.DONE) and lesson not in known:
            answer = self.visit.answer  # its time was saved with it
            progress.stage(item, state, now, now - self._since - (answer.took if answer else timedelta(0)))
            known[item] = state
            self._since = now
        self._to(0)
        if self.number + 1 < len(self.concept.steps):
            self.number += 1
            return
        steps = [known.get(step_item(self.concept, number)) for number in range(len(self.concept.steps))]
        if lesson not in known and None not in steps:
            skipped = set(steps) == {StageState.SKIPPED}
            progress.stage(lesson, StageState.SKIPPED if skipped else StageState.DONE, now)
        self.finished = self.left = True

    # Questions.

    def _quiz(self) -> Quiz:
        """The quiz that asks the question of this step."""
        visit, asked = self.visit, self.asked
        if visit.quiz is None:
            from ddpquiz.learning import quiz  # the first step asks nothing yet
            from ddpquiz.learning.answers import with_hint_at_mistake

            assert isinstance(asked, Question)  # noqa: S101  # a card is turned
            before = self.context.progress.answers_to(asked.key)
            dice = random.Random(f"{asked.key} {len(before)}")  # noqa: S311  # who comes back meets the same order
            if before and before[-1].credit == 0:
                asked = with_hint_at_mistake(asked, before[-1].given or "")
            visit.quiz = quiz.begin([asked], dice, self.context.clock())
        return visit.quiz

    @property
    def answering(self) -> Posed | None:
        """The question that keys answer now."""
        if self.page is not _Page.ASK or self._own or not isinstance(self.asked, Question):
            return None
        return None if self.visit.answer else self._quiz().posed

    def submit(self, text: str) -> None:
        from ddpquiz.learning.quiz import Given

        self._do(Given(text))

    def _do(self, event: Event) -> None:
        """Do a step of the question; its answer is saved before anything else is shown, and counts for nothing."""
        from ddpquiz.learning import quiz
        from ddpquiz.learning.answers import save_answer

        now = self.context.clock()
        after, (added, _) = quiz.step(self._quiz(), event, now)
        self.visit.quiz = after
        if isinstance(event, quiz.Given):
            self.note = after.unclear
        if added:
            save_answer(self.context.progress, added, (), retry=True)
            if self._predicts and not added.gave_up:
                self._go_on()

    def _prove(self, answer: Answer) -> None:
        if answer.posed.question.proof is None:
            self.note = "This question has no proof."
        else:
            self.run_proof(answer.posed)

    # What runs.

    def _start(self, page: _Page | None, script: str = "") -> None:
        """Start the listing, as it is or changed, or the learner's own version of it; `wait` follows it."""
        listing = self.step.listing
        if listing is None:
            return
        if page is not None:
            script = whole_script(self._code(page))
        self._own = _Own(script) if page is None else None  # what an earlier version showed says nothing of this one
        self._started = _Started(page, script)

    def _code(self, page: _Page) -> str:
        listing = self.step.listing
        assert listing is not None  # noqa: S101  # only steps with one run
        change = listing.change if page is _Page.CHANGED else None
        return changed_code(listing.code, change.line, change.to) if change else listing.code

    def _run_again(self) -> None:
        if self._own:
            self._start(None, self._file.read_text("utf-8", errors="replace"))
        else:
            self._start(_Page.CHANGED if self.page is _Page.CHANGED else _Page.RESULT)

    def wait(self, keys: Keys) -> str | None:
        """Wait for a key; while ranks run, also for their end.

        The first frame does not wait until it is known how long `more` is.
        """
        if self.concept.more and _size() not in self._more_pages and not keys.waiting():
            self._more_pages[_size()] = count_pages(self.concept)
            return None
        while self._started:
            if self._advance():
                return None
            if key := keys.get(0):
                return key
        return super().wait(keys)

    def _advance(self) -> bool:
        """Follow what runs for a moment; return whether there is something new to show."""
        from ddpquiz.ranks.content_runner import Observed, begin_listing, begin_own_version
        from ddpquiz.ranks.server_connection import server

        started, listing = self._started, self.step.listing
        assert started is not None and listing is not None  # noqa: S101, PT018  # the caller has looked
        try:
            if started.run is None:
                if not server().is_ready(_LOOK):
                    return False
                if started.page is None:
                    run = begin_own_version(self.concept.id, listing, started.script, self._file.name)
                else:
                    run = begin_listing(self.concept.id, listing, started.script)
                self._started = _Started(started.page, started.script, run)
                return True
            if not started.run.read(_LOOK):
                return False
        except UserError as error:
            self.stop()
            if started.page is None:  # as one that ran and failed: the code to mend stays there
                self._show(None, Observed({}, failed=str(error)), started.script)
            else:
                self.note = str(error)
            return True
        observed = started.run.observed
        self.stop()
        self._show(started.page, observed, started.script)
        return True

    def _show(self, page: _Page | None, observed: Observed, script: str = "") -> None:
        self.note = ""  # it was about a key that was pressed meanwhile
        if page is None:
            self._own = _Own(script, observed)
            return
        self.visit.observed[page] = observed
        self._to(self.pages.index(page))

    def stop(self) -> None:
        """End what runs; no rank is left."""
        started, self._started = self._started, None
        if started and started.run:
            with started.run:
                pass

    def interrupt(self) -> None:
        started = self._started
        if started is None:
            super().interrupt()
        self.stop()
        if started and started.page is None and started.run:
            self._show(None, started.run.observed, started.script)
        else:
            self.note = "stopped"

    def loop(self, screen: Screen, keys: Keys) -> None:
        try:
            super().loop(screen, keys)
        finally:
            self.stop()

    @property
    def _file(self) -> Path:
        name = f"{self.concept.id.replace('/', '-')}-{self.number + 1}.py"
        return data_dir() / "listings" / name

    def _edit(self) -> None:
        """Let the learner change the whole script, and run it; what was edited before is kept."""
        listing = self.step.listing
        assert listing is not None  # noqa: S101  # the key works only then
        asked = whole_script(self._code(self.page))
        ours = {whole_script(self._code(page)) for page in (_Page.RESULT, _Page.CHANGED)}

        def edit() -> str:
            file = self._file
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                if not file.exists() or file.read_text("utf-8", errors="replace") in ours:
                    file.write_text(asked, "utf-8")
                open_file(file)
                return file.read_text("utf-8", errors="replace")
            except OSError as problem:
                raise UserError(f"{file} cannot be written: {problem.strerror}.") from None

        script = self._leave(edit)
        if script is not None:
            self._start(None, script)

    def _restore(self) -> None:
        """Put the learner's version aside, so that the editor begins with the code of the lesson."""
        try:
            aside = put_aside(self._file)
        except UserError as problem:
            self.note = str(problem)
            return
        self._own = None
        self.note = f"This is the code of the lesson again; your version is kept as {aside.name}."

    def _demo(self, *, brief: bool = False) -> None:
        """Run the demo of the step, with what was predicted beside it; `brief` leaves its screen out."""
        step, answer = self.step, self.visit.answer
        if step.demo is None:
            return
        if answer and answer.gave_up:  # who asked for the solution has predicted nothing
            answer = None
        how = DemoOptions(predict=False, predicted=answer, run_at=self._place, brief=brief)
        outcome = self.run_demo(step.demo, how)
        if outcome and outcome.ended_well:
            self.visit.values = outcome.values
            save_seen(self.context.progress, self.concept, step.demo, self.context.clock())
        elif outcome:
            self.note = "The demo did not run to its end; d runs it again."

    def summary(self) -> RenderableType:
        return Group()


def _not_run() -> Text:
    return Text("It has not run yet: press r.", style="quiet")


def _own_parts(observed: Observed) -> list[RenderableType]:
    """Draw what the learner's own version showed, and if it ended badly, why and what `run` would advise."""
    parts = result_parts(observed.printed, "") if observed.printed else []  # what cannot start prints nothing
    if not observed.failed:
        return parts
    advice = f"\n{plain(observed.advice)}" if observed.advice else ""
    return [*parts, Text.assemble((plain(observed.failed), "bad"), advice)]


def _observed_parts(
    observed: Observed, shows: Shows, then: str, said: Sequence[RenderableType]
) -> list[RenderableType]:
    """Draw what a listing showed, and what was predicted.

    What it means is said only if it showed what the lesson expects.
    """
    parts = [*result_parts(observed.printed, "", ended=_ended(observed)), *said]
    if not observed.matches(shows):
        return [*parts, Text(_OTHER, style="warn")]
    return [*parts, *([markdown_of(then)] if then else [])]


def _from_whole_to_brief(asked: Text) -> list[Text | Brief]:
    """A question, and ever fewer of its last lines, which say what is asked."""
    return [asked, *(Brief(asked, lines, last=True) for lines in (6, 5, 4, 3, 2))]


def _fitting(*pages: list[RenderableType]) -> list[RenderableType]:
    """The first of some pages that fits the screen, or the last."""
    return next((page for page in pages if _fits(page)), pages[-1])


def _fits(page: Sequence[RenderableType]) -> bool:
    """Whether a page fits the screen, which shows a header above it and a line of keys below it."""
    return fits_screen(page, *_size(), around=_AROUND)


def _size() -> tuple[int, int]:
    """The columns and rows of the screen."""
    return console().size.width, console().size.height


def _ended(observed: Observed) -> str:
    """How a run ended if it did not end well."""
    return WAITS if observed.hung else observed.raised or observed.failed
