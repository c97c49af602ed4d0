"""Cards on the screen: a card with its buttons, and what a sitting with cards came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning.deal import MORE, Return
from ddpquiz.learning.schedule import Grade
from ddpquiz.learning.study import Hiding, StudyAction
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.layout import Barred, Commands, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings.sitting import header

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, timedelta

    from rich.console import RenderableType

    from ddpquiz.learning.deal import Deal
    from ddpquiz.learning.study import Done, Sitting
    from ddpquiz.learning.study_summary import StudySummary

NAMES = {Grade.AGAIN: "forgot", Grade.HARD: "hard but right", Grade.GOOD: "good", Grade.EASY: "easy"}

_BAR = 10  # columns of a progress bar
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

WELCOME = (
    "Welcome. Each card asks one thing: answer it in your head, look at the back, and grade yourself. "
    "A card comes back just before you would forget it, and `d` runs what it is about on real ranks. "
    "Every grade is kept at once, so you can quit whenever you like. "
    "New cards come in learning order; `ddpquiz study CONCEPT` takes those of one concept, which `ddpquiz list` names."
)


def where(sitting: Sitting, *, flagged: bool = False) -> Text:
    """Draw the header of the card on screen."""
    again = f"{sitting.coming_again} coming again" if sitting.coming_again else ""
    called = "due by a wrong answer" if sitting.called else ""
    once_more = "once more" if sitting.is_again else ""
    place = f"Card {sitting.place}/{sitting.count}" if sitting.count else ""
    cram = "cram: the schedule stays" if sitting.cram else ""
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


def last_grade(done: Done | None, *, cram: bool = False) -> str:
    """Say what became of the last card, and when it comes back; None was done to one that was skipped."""
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


def summary(came_to: StudySummary, held: Sequence[str], due: str, wanting: tuple[str, str] | None) -> Group:
    """Draw what a sitting came to; `held` says what limits held back, `wanting` is a concept's id and title."""
    lines: list[RenderableType] = [Text(_count(came_to), style="head"), Text()]
    if came_to.known:
        share = came_to.recalled / came_to.known
        known = f"{came_to.known} card{'s' * (came_to.known != 1)} learned before"
        lines.append(Text(f"Of {known} you recalled {came_to.recalled} at first sight ({share:.0%})."))
    if came_to.pace:
        lines.append(Text(f"Pace: {seconds(came_to.pace)} a card."))
    lines += map(prose, held)
    lines.append(Text(due))
    if wanting:
        name, title = wanting
        lines.append(Text.assemble(f'Worth reading: "{plain(title)}", ', (f"ddpquiz learn {plain(name)}", "code")))
    return Group(*lines)


def left(count: int, command: str, *, cram: bool = False) -> str:
    """Say how many cards were dealt and not done with, and which command goes on with them; no cram goes on."""
    what = "1 card is" if count == 1 else f"{count} cards are"
    return f"{what} left: `{command}` {'begins anew' if cram else 'goes on'}."


def held_back(deal: Deal, a_day: int, begun: int, command: str, *, cram: bool = False) -> list[str]:
    """Say what each limit held back, and how to lift it; `begun` new cards of `a_day` were asked on this day."""
    told: list[str] = []
    if cram and deal.due_held:  # the next one begins with the same cards
        told.append(f"Left out: {deal.due_held} of the cards seen; `--limit` deals more at once.")
    elif deal.due_held or deal.later:
        counts = ((deal.due_held, "due"), (deal.later, "new"))
        left = ", ".join(f"{count} {what}" for count, what in counts if count)
        told.append(f"Left for the next sitting: {left}; `--limit` deals more at once.")
    if deal.of_other_days:
        lift = f"`{command} --new {max(a_day, begun) + MORE}` raises it"
        limit = f"{a_day} new card{'s' * (a_day != 1)} a day"
        told.append(f"The limit is {limit}, {deal.of_other_days} wait: {lift}.")
    return [*told, *([proven(deal.proven_held)] if deal.proven_held else [])]


def more(held: int) -> Hotkey:
    """Return the key that goes on with some of the new cards that a limit held back."""
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


def seconds(took: timedelta) -> str:
    """Write a duration in seconds or minutes."""
    whole = round(took.total_seconds())
    return f"{whole} s" if whole < 120 else f"{whole // 60} min"


def _count(came_to: StudySummary) -> str:
    if not came_to.cards:
        return "No card was graded."
    cards = "1 card" if came_to.cards == 1 else f"{came_to.cards} cards"
    return f"Done: {cards}, {came_to.new} of them new." if came_to.new else f"Done: {cards}."
