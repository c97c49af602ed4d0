"""A sitting with cards: which cards, one after the other on the screen, each grade saved at once, and the result."""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Card, Question
from ddpquiz.curriculum.posed_question import pose
from ddpquiz.learning import mastery, study
from ddpquiz.learning.guided_path import further_cards
from ddpquiz.learning.log_rows import Receipt
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import NEW_A_DAY, Grade, begun, study_day
from ddpquiz.learning.study import (
    MORE,
    CardQueue,
    Hiding,
    Return,
    Review,
    Sitting,
    StudyAction,
    StudySummary,
    should_return,
    sum_up,
)
from ddpquiz.learning.study_choice import CARDS_A_SITTING, StudyChoice, begin_study, matching_cards
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.key_screen import HELP, Hotkey
from ddpquiz.terminal.kit.layout import Barred, Commands, Folded, header, section, show
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings.sitting import (
    DEMO,
    LOOK,
    PROOF,
    SOURCE,
    ByLines,
    SittingContext,
    SittingScreen,
    command_words,
    run_sitting,
)

if TYPE_CHECKING:
    from ddpquiz.learning.standing import Advice
    from ddpquiz.terminal.sittings.lookup import Lookup

SHOW = Hotkey("space", "show the back", "turn the card over (or enter)", also=("enter",))
GOOD = Hotkey("space", "good", "you recalled it (or enter)", also=("enter",))
UNDO = Hotkey("u", "undo", "undo what you did to the last card; press it again to go further back")
SKIP = Hotkey("s", "skip", "leave this card out of this sitting")
BURY = Hotkey("b", "hide today", "hide this card until tomorrow")
_BACK_TO_CARD = Hotkey("enter", "back to the card")
SUSPEND = Hotkey("x", "hide", "hide this card until `ddpquiz progress restore` brings it back")
_GRADES = {
    Grade.AGAIN: "you did not know it; it comes again in this sitting",
    Grade.HARD: "you knew it, but with difficulty; it is asked again at the end of this sitting",
    Grade.GOOD: "you knew it",
    Grade.EASY: "you knew it without thinking; intervals of three days or more vary a little, so that cards spread out",
}
NAMES = {Grade.AGAIN: "forgot", Grade.HARD: "hard but right", Grade.GOOD: "good", Grade.EASY: "easy"}
_NEXT_LESSON = ("ddpquiz learn", "begin the next lesson, whose cards are new")
_BAR = 10  # columns of a progress bar
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WELCOME = (
    "Welcome. Each card asks one thing: answer it in your head, look at the back, and grade yourself. "
    "A card comes back after a few days, then less and less often, and `d` runs its demo on real ranks. "
    "Every grade is saved at once, so you can quit at any time."
)


def ask_cards(context: SittingContext, choice: StudyChoice, console: Console) -> None:
    """Choose the cards, and ask them; or show what else to do. KeyboardInterrupt if the learner interrupts it."""
    catalog, progress, at = context.catalog, context.progress, context.clock()
    cards = matching_cards(catalog, choice)
    opening = _aim(progress, choice.retention, at) if choice.retention is not None else ""
    sitting = begin_study(catalog, cards, choice, progress, at)
    if not sitting.chosen.cards:
        concepts = catalog.choose(choice.concept, choice.track)
        demos = [link.run for concept in concepts for link in concept.demos]
        above = [Text(opening), Text()] if opening else []
        show(console, Group(*above, _nothing_due(sitting, cards, choice, demos)))
        return
    welcome = [] if progress.memories() else [f"{WELCOME} {_whose(context, sitting.chosen.cards[0])}"]
    screen = StudyScreen(
        context,
        sitting,
        a_day=choice.a_day,
        go_on=_command(choice),
        opening=[*welcome, *filter(None, [opening])],
    )
    run_sitting(screen, console)


def _filtered(choice: StudyChoice) -> str:
    """The command line that chooses from the same cards."""
    options = {"--level": choice.level, "--track": choice.track}
    return command_words("ddpquiz", "study", *choice.concept or (), **options)


def _command(choice: StudyChoice) -> str:
    """The command line that was given, without the number of new cards."""
    count = None if choice.count == CARDS_A_SITTING else choice.count
    flags = {"--all": choice.every, "--cram": choice.cram, "--two-button": choice.two_button}
    return command_words(_filtered(choice), **{"--count": count, **flags})


def _whose(context: SittingContext, first: Card) -> str:
    """A sentence about the lesson of the first cards of all."""
    title = f'"{context.concepts[first.concept].title}"'
    if first.concept in context.progress.concepts():
        return f"New cards come from the lessons that you have begun; these are from {title}."
    return f"These cards belong to the lesson {title}, which `ddpquiz learn {first.concept}` opens."


def _nothing_due(sitting: Sitting, cards: Sequence[Card], choice: StudyChoice, demos: Sequence[str]) -> RenderableType:
    """Draw what else there is to do when no card was chosen."""
    day, held, filtered = study_day(sitting.since), sitting.chosen.held, _filtered(choice)
    mine = {card.key for card in cards}
    soon = study.due_soon({key: memory for key, memory in sitting.memories.items() if key in mine}, day)
    new = f"{filtered} --new {begun(sitting.memories, day) + study.MORE}"
    test = command_words("ddpquiz", "test", *choice.concept or (), **{"--track": choice.track})
    instead = [
        *([_NEXT_LESSON] if sitting.chosen.unread_held else []),
        (f"{filtered} --cram", "go over cards that are not due"),
        *([(new, f"study more new cards ({len(held)} are left)")] if held else []),
        (test, "find out how well you know it"),
        *((f"ddpquiz demo {demo}", "see it run on real ranks") for demo in demos[:1]),
    ]
    lines: list[RenderableType] = [
        Text("Nothing is due.", style="head"),
        Text(f"Due in the next seven days: {forecast(soon, day)}."),
    ]
    if sitting.chosen.proven_held:
        lines.append(Text(proven(sitting.chosen.proven_held)))
    if hidden := sum(card.key in sitting.chosen.rules.hidden for card in cards):
        what = plural(hidden, "card is", "cards are")
        lines.append(Text(f"{what} hidden; `ddpquiz list --hidden` lists them."))
    return Group(*lines, *section("Instead", Commands(instead)))


def _aim(progress: Progress, retention: float, at: datetime) -> str:
    """Change the retention from now on, and return what that means in a sentence."""
    before = progress.weights()
    weights = replace(before, retention=retention)
    if weights == before:
        return f"You aim to recall {retention:.0%} of the cards that come due, as before."
    progress.use_weights(weights, at)
    return (
        f"From now on you aim to recall {retention:.0%} of the cards that come due: "
        f"intervals are {weights.stretch / before.stretch:.2g} times as long as at {before.retention:.0%}. "
        "Cards that are already scheduled keep their dates."
    )


_ACTIONS = {"s": StudyAction.SKIP, "x": StudyAction.SUSPEND, "b": StudyAction.BURY, "q": StudyAction.STOP}


class StudyScreen(SittingScreen):
    """A sitting with cards. `go_on` is the command that was given, without the number of new cards."""

    def __init__(
        self,
        context: SittingContext,
        sitting: study.Sitting,
        *,
        a_day: int | None = NEW_A_DAY,
        go_on: str = "ddpquiz study",
        opening: Sequence[str] = (),
    ) -> None:
        super().__init__(context)
        self.sitting = sitting
        self._shows_source = False
        self._receipts: list[Receipt | None] = []  # of what was done, in order; None where the log does not change
        self._a_day = a_day  # new cards; None: without a limit
        self._go_on = go_on
        self.opening = opening  # above the first card
        self.by_lines = StudyByLines(self)

    @property
    def scene(self) -> Hashable:
        return len(self.sitting.done), self.sitting.queue, self.sitting.shown, self.sitting.stopped

    @property
    def over(self) -> bool:
        return self.sitting.card is None

    def body(self) -> RenderableType:
        if self.sitting.card is None:
            return Group(self.summary(), Text())
        parts: list[RenderableType] = []
        if not self.sitting.previous and not self.sitting.shown:
            parts += [part for text in self.opening for part in (prose(text, "quiet"), Text())]
        parts.append(self.where())
        front, below = prose(self.sitting.card.front, "bold"), [Text()]
        if not self.sitting.shown:
            return Group(*parts, Text(self.about_last(), style="quiet"), Text(), front, *below)
        back = [Barred(prose(self.sitting.card.back))]

        def around(width: int) -> RenderableType:
            return Group(*parts, *below, self.foot(width))

        return Group(*parts, Folded(front, [Text()], back, title="The front", around=around, above=2), *below)

    def above_keys(self) -> list[RenderableType]:
        if self.sitting.card is None or not self.sitting.shown:
            return []
        if self.sitting.cram:
            return [buttons(dict.fromkeys(self.sitting.buttons))]
        days = self.sitting.preview(study_day(self.context.clock()))
        return [buttons(days, self.sitting.grades(self.sitting.queue[0]))]

    def keys(self) -> list[Hotkey]:
        undo = [UNDO] if self.sitting.previous else []
        demo = [DEMO] if self.demo_of(self._concept_to_run()) else []
        if (card := self.sitting.card) is None:
            more = [more_key(len(held))] if (held := self.sitting.chosen.held) else []
            return [Hotkey("enter", "leave"), *more, *undo, *demo, LOOK, HELP]
        turn = GOOD if self.sitting.shown else SHOW
        proof = [PROOF] if self.sitting.shown and self._proof() else []
        source = [SOURCE] if card.source and self.sitting.shown else []
        flag = self.flag_key(card.key)
        usual = [*demo, *proof, SKIP] if self.sitting.shown else [SKIP, *demo]  # after the back, few skip a card
        return [turn, *undo, *usual, *source, flag, LOOK, BURY, SUSPEND, HELP, self.leave]

    def all_keys(self) -> list[Hotkey]:
        asked = self.sitting.card and self.sitting.shown
        grades = enumerate(self.sitting.buttons if asked else (), 1)
        return [*(Hotkey(str(number), NAMES[grade], _GRADES[grade]) for number, grade in grades), *self.keys()]

    def handle_key(self, key: str) -> None:
        source, self._shows_source = self._shows_source, False
        if source and key == "escape":  # it closes what was opened last
            self.note = ""
        else:
            super().handle_key(key)

    def press(self, key: str) -> None:
        card = self.sitting.card
        match key:
            case "/":
                self.look_up()
            case "u":
                self.note = "undone" if self.sitting.previous else ""
                self._do(StudyAction.UNDO)
            case "d":
                self.run_demo(self.demo_of(self._concept_to_run()))
                self._do(StudyAction.BACK)
            case "n" if card is None:
                self._do(StudyAction.MORE)
            case _ if card is None:
                self.left = key in ("enter", "q", "escape")  # not space, which may be pressed once too often
            case "p":
                self._prove()
            case "f":
                self.flag(card.key)
            case "v" if self.sitting.shown:
                self.show_source(card.source)
                self._shows_source = True
            case _:
                self._press_on_card(key)

    def _press_on_card(self, key: str) -> None:
        """Obey a key that does something to the card on screen."""
        buttons = dict(zip("1234", self.sitting.buttons, strict=False))
        if key == "space":
            self._do(Grade.GOOD if self.sitting.shown else StudyAction.SHOW)
        elif key in buttons:
            self._do(buttons[key])
        elif key in _ACTIONS:
            self._do(_ACTIONS[key])
            self.left = self.sitting.stopped

    def summary(self) -> RenderableType:
        return result(self.sitting, self.context, self._a_day, self._go_on, self._concept_to_read())

    def _do(self, event: study.Event) -> None:
        """Do a step, and save what it changed before anything else is shown."""
        now = self.context.clock()
        after, (added, removed) = study.step(self.sitting, event, now)
        if added:
            self._receipts.append(self._save(added, now))
        if removed and (receipt := self._receipts.pop()):
            self.context.progress.undo(receipt, now)
        self.sitting = after

    def _save(self, done: study.Done, now: datetime) -> Receipt | None:
        """Append what was done to the log; a grade in a cram does not change the schedule."""
        progress, card = self.context.progress, done.card.key
        match done:
            case Review():
                return None if self.sitting.cram else progress.review(card, done.grade, now, done.took)
            case Hiding(act=StudyAction.SUSPEND):
                return progress.suspend(card, now)
            case _:
                return progress.bury(card, now)

    def where(self) -> Text:
        card = self.sitting.queue[0]
        concept = self.context.catalog.concept(card.concept)
        beyond = self.sitting.memory(card) is None and card in further_cards(concept)
        flagged, path = self.is_flagged(card.key), self.context.place
        return card_header(self.sitting, concept.title, flagged=flagged, path=path, beyond=beyond)

    def about_last(self) -> str:
        leech = self.sitting.leech
        return _about_last(self.sitting, has_demo=bool(leech and self.demo_of(leech.concept)))

    def _concept_to_read(self) -> str | None:
        """The concept of which most was forgotten, or else the one that answers show to be weakest."""
        return study.sum_up(self.sitting).weakest_concept or self._weakest

    @cached_property
    def _weakest(self) -> str | None:
        answers = (
            row for row in self.context.progress.last_answers() if row.item.rpartition("/")[0] in self.context.concepts
        )
        return mastery.weakest(mastery.strengths(answers, study_day(self.context.clock())))

    def _concept_to_run(self) -> str | None:
        """The concept whose demo `d` runs: that of a card forgotten too often, or of the card on screen."""
        if self.sitting.card is None:
            return self._concept_to_read()
        leech = None if self.sitting.shown else self.sitting.leech
        return (leech or self.sitting.card).concept

    def _proof(self) -> Question | None:
        """The question whose proof shows what the card on screen says."""
        card = self.sitting.card
        found = self.context.questions({f"{card.concept}/{card.proof}"}) if card and card.proof else []
        return next(iter(found), None)

    def _prove(self) -> None:
        question = self._proof()
        if question is None:
            self.note = "This card has no proof."
        elif not self.sitting.shown:
            self.note = "The proof shows the answer; turn the card over first."
        else:
            self.run_proof(pose(question, random.Random(0)))  # noqa: S311
            self._do(StudyAction.BACK)


class StudyByLines(ByLines[StudyScreen]):
    """A line is the name of a key; an empty one turns the card over, and `/words` looks the words up."""

    def __init__(self, screen: StudyScreen) -> None:
        super().__init__(screen)
        self._found: Lookup | None = None

    @property
    def scene(self) -> Hashable:
        return super().scene, self._found

    def hotkeys(self) -> list[Hotkey]:
        return [_BACK_TO_CARD] if self._found else super().hotkeys()

    def new(self) -> RenderableType:
        screen, sitting = self.screen, self.screen.sitting
        if self._found:
            return self._found.body()
        card = sitting.queue[0]
        if sitting.shown:
            return Group(Barred(prose(card.back)), *screen.above_keys())
        last = [Text(text) for text in screen.opening if not sitting.previous] or [Text(screen.about_last())]
        return Group(*filter(None, last), Text(), screen.where(), prose(card.front, "bold"))

    def obey(self, line: str) -> None:
        reading, self._found = self._found is not None, None
        if line.startswith("/"):
            from ddpquiz.terminal.sittings.lookup import Lookup  # here, because the first card must not wait for it

            self._found = Lookup(self.screen.context.catalog).opened(line[1:])
        elif line or not reading:
            self.screen.handle_key(line.lower() or "space")


def card_header(sitting: Sitting, title: str, *, flagged: bool = False, path: str = "", beyond: bool = False) -> Text:
    """Draw the header of the card on screen: `title` is that of its concept, `path` a place in a guided path.

    `beyond` tells that the card is new, and that only the further pages of its lesson (`m`) say what it asks.
    """
    again = f"{sitting.coming_again} to repeat" if sitting.coming_again else ""
    made_due = "due after a missed question" if sitting.is_made_due else ""
    once_more = "once more" if sitting.grades(sitting.queue[0]) else ""
    place = f"Card {sitting.place}/{sitting.count}" if sitting.place else ""  # a repeated card may be the first
    cram = "cram: the schedule does not change" if sitting.cram else ""
    first, *more = filter(None, (place, once_more))
    flag = "flagged" if flagged else ""
    further = "extra pages (m)" if beyond else ""
    done = round(sitting.share * _BAR)
    bar = "━" * done + "─" * (_BAR - done)
    return header(path, f"{bar} {first}", *more, cram, again, made_due, further, flag, "" if path else title)


def buttons(days: Mapping[Grade, int | None], graded: Sequence[Grade] = ()) -> Text:
    """Draw the grades, each with the days until the card would come back; None in a cram.

    `graded` are those that the card got today already: a card that is asked again at the end of a sitting says "later".
    """
    line = Text()
    for number, (grade, until) in enumerate(days.items(), 1):
        line.append("   " if line else "").append(str(number), style="key").append(f" {NAMES[grade]}")
        if until is not None:
            comes_last = should_return((*graded, grade), lapses=0) is Return.LAST
            line.append(f": {'later' if comes_last else interval(until)}", style="quiet")
    return line


def _about_last(sitting: Sitting, *, has_demo: bool) -> str:
    """What was done to the card before this one; with `has_demo`, `d` runs its demo now."""
    before = sitting.previous
    if before is None or before.card is None or sitting.shown:
        return ""
    if sitting.leech:
        return f"forgotten often: left out for today{' · d runs its demo' if has_demo else ''} · u undo"
    done, cram = sitting.last, sitting.cram
    if done is None:
        return "skipped · u undo"
    if isinstance(done, Hiding):
        return f"{'hidden' if done.act is StudyAction.SUSPEND else 'hidden until tomorrow'} · u undo"
    match done.again:
        case Return.SOON:
            return "comes again in this sitting · u undo"
        case Return.LAST:
            return f"comes back once more in this sitting{'' if cram else f', then in {interval(done.days)}'} · u undo"
        case _:
            return "u undo" if cram else f"see again in {interval(done.days)} · u undo"


def interval(days: int) -> str:
    """A number of days in a short form."""
    if days == 0:
        return "now"
    if days < 31:
        return plural(days, "day")
    months = round(days / 30.4)
    return plural(months, "month") if days < 365 else f"{days / 365:.1f} years"


def more_key(held: int) -> Hotkey:
    """The key that adds some of the new cards that a limit held back."""
    count = min(held, MORE)
    return Hotkey("n", plural(count, "more new card"), "go on with new cards that a limit held back")


def proven(count: int) -> str:
    """A sentence about the new cards that are left out because their concepts are strong."""
    return f"Left out: {plural(count, 'new card')} of concepts that you know well; --all shows them, too."


def forecast(soon: Sequence[int], day: date) -> str:
    """How many cards come due in the days after `day`, and when.

    Days have their names, because a study day goes on after midnight: "tomorrow" would then be today.
    """
    when = (_DAYS[(day.weekday() + ahead) % 7] for ahead in range(1, len(soon) + 1))
    parts = [f"{count} {name}" for count, name in zip(soon, when, strict=True) if count]
    return f"{plural(sum(soon), 'card')} ({', '.join(parts)})" if parts else "none"


def result(
    sitting: Sitting, context: SittingContext, a_day: int | None, command: str, to_read: str | None
) -> RenderableType:
    """Draw the result of a sitting.

    `a_day` is the limit of new cards, None without one; `command` goes on, without that limit; `to_read` is the
    concept to read about.
    """
    summary = sum_up(sitting)
    today = begun(sitting.memories, study_day(context.clock()))
    if not sitting.queue:
        held = _held_back(sitting.chosen, a_day, today, command, cram=sitting.cram)
    elif sitting.cram:
        held = [f"`{command}` begins anew."]
    else:
        held = [_left(sitting, _command_to_go_on(sitting, a_day, today, command), today)]
    lines: list[RenderableType] = [Text(_count(summary), style="head"), Text()]
    if summary.known:
        share = summary.recalled / summary.known
        known = f"{plural(summary.known, 'card')} learned before"
        lines.append(Text(f"Of {known} you recalled {summary.recalled} on the first try ({share:.0%})."))
    if summary.pace:
        lines.append(Text(f"Pace: {_seconds(summary.pace)} per card."))
    lines += map(prose, held)
    lines.append(Text(_due(sitting, context)))
    best = None
    if not (sitting.queue or context.place or context.back_to):  # otherwise the text or the screen says what is next
        best = _next(context)
    found = context.concepts.get(to_read or "")
    if found and not context.place and not (best and best.concept == found):  # a path has its own lesson
        learn = (f"ddpquiz learn {plain(found.id)}", "code")
        lines.append(Text.assemble(f'Worth reading: "{plain(found.title)}", ', learn))
    if best:
        about = f'"{plain(best.concept.title)}" ({best.why})' if best.concept else best.why
        lines.append(Text.assemble(f"Next: {about}, ", (plain(best.command), "code")))
    return Group(*lines)


def _next(context: SittingContext) -> Advice:
    """What to do next, the same as home says."""
    from ddpquiz.learning.standing import advise  # the first card does not wait for these two
    from ddpquiz.terminal.sittings.look import look

    return advise(look(context))[0]


def _left(sitting: Sitting, command: str, begun: int) -> str:
    """How many cards the next sitting asks, counted as in its header, and the command that continues."""
    chosen = sitting.chosen
    done = {one.card.key for one in sitting.done} - {card.key for card in sitting.queue}
    left = [card for card in chosen.cards if card.key not in done]
    again = sum(bool(sitting.grades(card)) for card in left)
    fills_up = min(chosen.due_held + chosen.later, len(chosen.cards) - len(left))  # to the limit that held these back
    count = len(left) - again + fills_up
    cards = plural(count, "card")
    coming = f"{again if count else plural(again, 'card')} to repeat"
    today = f" (new cards done today: {begun})" if begun and "--new" in command else ""
    return f"Left: {', and '.join([cards] * bool(count) + [coming] * bool(again))}; to continue: `{command}`{today}."


def _command_to_go_on(sitting: Sitting, a_day: int | None, begun: int, command: str) -> str:
    """The command that asks the cards that are left; `begun` new cards were asked on this day."""
    if a_day is None:
        return command
    new = sum(sitting.memory(card) is None for card in sitting.queue)
    wanted = max(a_day, begun + new) if new else a_day
    return command if wanted == NEW_A_DAY else f"{command} --new {wanted}"


def _due(sitting: Sitting, context: SittingContext) -> str:
    """How many cards are due now and soon, with the same words and numbers as the home page."""
    day = study_day(context.clock())
    hidden = context.progress.hidden(day)
    cards = {card.key for concept in context.concepts.values() for card in concept.cards} - hidden
    known = {**sitting.memories, **context.progress.memories()}  # a prediction may have made cards due meanwhile
    memories = {key: memory for key, memory in known.items() if key in cards}
    soon = forecast(study.due_soon(memories, day), day)
    graded = context.progress.grades(day)  # without those of a cram, which do not change the schedule
    again = study.coming_again(memories, graded)
    due = f"{study.due_now(memories, day, graded)}{f', and {again} to repeat' if again else ''}"
    return f"Due now: {due}. In the next seven days: {soon}."


def _held_back(chosen: CardQueue, a_day: int | None, begun: int, command: str, *, cram: bool = False) -> list[str]:
    """What each limit held back, and how to raise it, as one line; `begun` of `a_day` new cards were asked today."""
    parts: list[str] = []
    if cram and chosen.due_held:  # the next cram begins with the same cards
        parts.append(f"{chosen.due_held} of the cards that you have seen (`--count` shows more)")
    elif chosen.due_held or chosen.later:
        counts = ((chosen.due_held, "due"), (chosen.later, "new"))
        parts.append(f"{' and '.join(f'{count} {what}' for count, what in counts if count)} (`--count` shows more)")
    if a_day is not None and chosen.of_other_days:
        more = min(MORE, chosen.of_other_days)
        shows = f"`{command} --new {max(a_day, begun) + more}` shows {more} of them today"
        parts.append(f"{plural(chosen.of_other_days, 'new card')} for other days ({shows})")
    if chosen.proven_held:
        parts.append(f"{plural(chosen.proven_held, 'new card')} of concepts that you know well (`--all` shows them)")
    return [f"Left out: {', '.join(parts)}."] if parts else []


def _seconds(duration: timedelta) -> str:
    whole = round(duration.total_seconds())
    return f"{whole} s" if whole < 120 else f"{whole // 60} min"


def _count(summary: StudySummary) -> str:
    if not summary.cards:
        return "No card was graded."
    if summary.new == summary.cards:
        return f"Done: {plural(summary.cards, 'new card')}."
    new = f", {summary.new} of them new" if summary.new else ""
    return f"Done: {plural(summary.cards, 'card')}{new}."
