"""How a card is drawn: its header, its sides, the grades, and what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning.deal import MORE, Return
from ddpquiz.learning.schedule import Grade
from ddpquiz.learning.study import Hiding, StudyAction
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.layout import Barred, Commands, section
from ddpquiz.terminal.kit.style import prose
from ddpquiz.terminal.sittings.sitting import header

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from rich.console import RenderableType

    from ddpquiz.learning.deal import Deal
    from ddpquiz.learning.study import Done, Sitting

SHOW = Hotkey("space", "show the back", "turn the card over (enter does it too)")
GOOD = Hotkey("space", "good", "recalled, as usual (enter does it too)")
UNDO = Hotkey("u", "undo", "undo the last grade or skip; press it again to go further back")
SKIP = Hotkey("s", "skip", "leave this card out of this sitting")
BURY = Hotkey("b", "bury", "hide this card until tomorrow")
SUSPEND = Hotkey("x", "suspend", "hide this card until `ddpquiz progress restore` brings it back")
GRADES = {
    Grade.AGAIN: "you did not know it; it comes again in this sitting",
    Grade.HARD: "you knew it, with trouble; it comes once more at the end of this sitting",
    Grade.GOOD: "you knew it",
    Grade.EASY: "you knew it without thinking; the days vary a little, so that cards do not all come back together",
}
NAMES = {Grade.AGAIN: "forgot", Grade.HARD: "hard but right", Grade.GOOD: "good", Grade.EASY: "easy"}

_BAR = 10  # columns of a progress bar
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

WELCOME = (
    "Welcome. Each card asks one thing: answer it in your head, look at the back, and grade yourself. "
    "A card comes back just before you would forget it, and `d` runs its demo on real ranks. "
    "Every grade is saved at once, so you can quit at any time. "
    "New cards come in learning order; `ddpquiz study CONCEPT` asks those of one; `ddpquiz list` lists all concepts."
)


def where(sitting: Sitting, *, flagged: bool = False) -> Text:
    """Draw the header of the card on screen."""
    again = f"{sitting.coming_again} coming again" if sitting.coming_again else ""
    called = "due because of a wrong answer" if sitting.called else ""
    once_more = "once more" if sitting.grades(sitting.queue[0]) else ""
    place = f"Card {sitting.place}/{sitting.count}" if sitting.count else ""
    cram = "cram: the schedule does not change" if sitting.cram else ""
    first, *more = filter(None, (place, once_more))
    return header(
        f"{bar(sitting.share)} {first}",
        *more,
        cram,
        again,
        called,
        "flagged" if flagged else "",
        sitting.queue[0].concept,
    )


def bar(share: float) -> str:
    """Draw how much is done."""
    done = round(share * _BAR)
    return "━" * done + "─" * (_BAR - done)


def front(sitting: Sitting) -> Text:
    """Draw the question of the card on screen."""
    return prose(sitting.queue[0].front, "bold")


def back(sitting: Sitting) -> RenderableType:
    """Draw the answer of the card on screen."""
    return Barred(prose(sitting.queue[0].back))


def buttons(days: Mapping[Grade, int | None]) -> Text:
    """Draw the grades, each with the days until the card would come back, if the grade decides that."""
    line = Text()
    for number, (grade, until) in enumerate(days.items(), 1):
        line.append("   " if line else "").append(str(number), style="key").append(f" {NAMES[grade]}")
        line.append("" if until is None else f" {interval(until)}", style="quiet")
    return line


def grade_keys(grades: Iterable[Grade]) -> list[Hotkey]:
    """Return the keys that grade a card."""
    return [Hotkey(str(number), NAMES[grade], GRADES[grade]) for number, grade in enumerate(grades, 1)]


def about_last(sitting: Sitting, *, has_demo: bool) -> str:
    """Say what was done to the card before this one; `has_demo` says whether `d` runs its demo now."""
    before = sitting.previous
    if before is None or before.card is None or sitting.shown:
        return ""
    if sitting.stuck:
        return f"forgotten often: left out for today{' · d runs its demo' if has_demo else ''} · u undo"
    return last_grade(sitting.last, cram=sitting.cram)


def last_grade(done: Done | None, *, cram: bool = False) -> str:
    """Say what was done to the last card, and when it comes back; `done` is None when it was skipped."""
    if done is None:
        return "skipped · u undo"
    if isinstance(done, Hiding):
        return f"{'suspended' if done.act is StudyAction.SUSPEND else 'buried until tomorrow'} · u undo"
    match done.again:
        case Return.SOON:
            return "comes again in this sitting · u undo"
        case Return.LAST:
            return f"comes once more in this sitting{'' if cram else f', then in {interval(done.days)}'} · u undo"
        case _:
            return "u undo" if cram else f"see again in {interval(done.days)} · u undo"


def interval(days: int) -> str:
    """Write a number of days as short as it can be read."""
    if days == 0:
        return "now"
    if days < 31:
        return f"{days} day{'s' * (days != 1)}"
    months = round(days / 30.4)
    return f"{months} month{'s' * (months != 1)}" if days < 365 else f"{days / 365:.1f} years"


def more(held: int) -> Hotkey:
    """Return the key that deals some of the new cards that a limit held back."""
    count = min(held, MORE)
    return Hotkey("n", f"{count} more new card{'s' * (count != 1)}", "go on with new cards that a limit held back")


def proven(count: int) -> str:
    """Say how many new cards are not offered because the learner is strong there already."""
    what = "1 new card" if count == 1 else f"{count} new cards"
    return f"Left out: {what} of concepts proven strong; --all deals them too."


def nothing_due(soon: str, more: Iterable[tuple[str, str]], held: Deal, hidden: int, opening: str = "") -> Group:
    """Draw what there is to do instead when no card is to be dealt; `hidden` counts cards suspended or buried."""
    lines: list[RenderableType] = [Text("Nothing is due.", style="head"), Text(f"Due in the next seven days: {soon}.")]
    if held.proven_held:
        lines.append(Text(proven(held.proven_held)))
    if hidden:
        what = "1 card is" if hidden == 1 else f"{hidden} cards are"
        lines.append(Text(f"{what} suspended or buried; ddpquiz list --hidden names them."))
    if opening:
        lines = [Text(opening), Text(), *lines]
    return Group(*lines, *section("Instead", Commands(more)))


def forecast(soon: Sequence[int], day: date) -> str:
    """Say how many cards come due in the days after `day`, and when."""
    when = ("tomorrow", *(_DAYS[(day.weekday() + ahead) % 7] for ahead in range(2, len(soon) + 1)))
    parts = [f"{count} {name}" for count, name in zip(soon, when, strict=True) if count]
    return f"{sum(soon)} ({', '.join(parts)})" if parts else "none"
