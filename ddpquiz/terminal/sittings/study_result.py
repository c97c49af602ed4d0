"""The result of a sitting with cards: what was recalled, what is left, and how to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning import deal, standing
from ddpquiz.learning.deal import MORE
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.study import Hiding, sum_up
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings.card_view import forecast, proven

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from rich.console import RenderableType

    from ddpquiz.learning.deal import Deal
    from ddpquiz.learning.study import Sitting, StudySummary
    from ddpquiz.terminal.sittings.sitting import Desk


def result(
    sitting: Sitting, desk: Desk, a_day: int | None, command: str, weakest: Callable[[], str | None]
) -> RenderableType:
    """Draw what a sitting came to.

    `a_day` is the limit of new cards, None without one; `command` goes on, without that limit; `weakest` is the
    concept to read about when no card was forgotten.
    """
    summary = sum_up(sitting)
    begun = standing.begun(sitting.memories, study_day(desk.clock()))
    if not sitting.queue:
        held = _held_back(sitting.deal, a_day, begun, command, cram=sitting.cram)
    elif sitting.cram:
        held = [f"`{command}` begins anew."]
    else:
        held = [_left(sitting, _command_to_go_on(sitting, a_day, begun, command))]
    lines: list[RenderableType] = [Text(_count(summary), style="head"), Text()]
    if summary.known:
        share = summary.recalled / summary.known
        known = f"{summary.known} card{'s' * (summary.known != 1)} learned before"
        lines.append(Text(f"Of {known} you recalled {summary.recalled} at first sight ({share:.0%})."))
    if summary.pace:
        lines.append(Text(f"Pace: {_seconds(summary.pace)} a card."))
    lines += map(prose, held)
    lines.append(Text(_due(sitting, desk)))
    if found := desk.concepts.get(summary.wanting or weakest() or ""):
        learn = (f"ddpquiz learn {plain(found.id)}", "code")
        lines.append(Text.assemble(f'Worth reading: "{plain(found.title)}", ', learn))
    return Group(*lines)


def _left(sitting: Sitting, command: str) -> str:
    """Say how many cards the next sitting deals, as its header counts them, and which command goes on."""
    deal = sitting.deal
    done = {one.card.key for one in sitting.done} - {card.key for card in sitting.queue}
    left = [card for card in deal.cards if card.key not in done]
    again = sum(bool(sitting.grades(card)) for card in left)
    fills_up = min(deal.due_held + deal.later, len(deal.cards) - len(left))  # to the limit that held these back
    count = len(left) - again + fills_up
    cards = f"{count} card{'s' * (count != 1)}"
    coming = f"{again if count else f'{again} card' + 's' * (again != 1)} coming again"
    return f"Left: {', and '.join([cards] * bool(count) + [coming] * bool(again))}; `{command}` goes on."


def _command_to_go_on(sitting: Sitting, a_day: int | None, begun: int, command: str) -> str:
    """Return the command that deals the cards that are left; `begun` new cards were asked on this day."""
    if a_day is None:
        return command
    wanted = max(a_day, begun + sum(sitting.memory(card) is None for card in sitting.queue))
    return command if wanted == standing.NEW_A_DAY else f"{command} --new {wanted}"


def _due(sitting: Sitting, desk: Desk) -> str:
    """Say which cards are due now and soon, in the words and numbers of the home page."""
    day = study_day(desk.clock())
    hidden = {one.card.key for one in sitting.done if isinstance(one, Hiding)}
    memories = {key: memory for key, memory in sitting.memories.items() if key not in hidden}
    soon = forecast(deal.due_soon(memories, day), day)
    graded = desk.progress.grades(day)  # without those of a cram, which do not change the schedule
    again = deal.coming_again(memories, graded)
    due = f"{deal.due_now(memories, day, graded)}{f', and {again} coming again' if again else ''}"
    return f"Due now: {due}. In the next seven days: {soon}."


def _held_back(deal: Deal, a_day: int | None, begun: int, command: str, *, cram: bool = False) -> list[str]:
    """Say what each limit held back, and how to lift it; `begun` new cards of `a_day` were asked on this day."""
    lines: list[str] = []
    if cram and deal.due_held:  # the next cram begins with the same cards
        lines.append(f"Left out: {deal.due_held} of the cards that you have seen; `--limit` deals more at once.")
    elif deal.due_held or deal.later:
        counts = ((deal.due_held, "due"), (deal.later, "new"))
        left = ", ".join(f"{count} {what}" for count, what in counts if count)
        lines.append(f"Left for the next sitting: {left}; `--limit` deals more at once.")
    if a_day is not None and deal.of_other_days:
        lift = f"`{command} --new {max(a_day, begun) + MORE}` raises it"
        limit = f"{a_day} new card{'s' * (a_day != 1)} a day"
        lines.append(f"The limit is {limit}, {deal.of_other_days} wait: {lift}.")
    return [*lines, *([proven(deal.proven_held)] if deal.proven_held else [])]


def _seconds(duration: timedelta) -> str:
    """Write a duration in seconds or minutes."""
    whole = round(duration.total_seconds())
    return f"{whole} s" if whole < 120 else f"{whole // 60} min"


def _count(summary: StudySummary) -> str:
    if not summary.cards:
        return "No card was graded."
    cards = "1 card" if summary.cards == 1 else f"{summary.cards} cards"
    return f"Done: {cards}, {summary.new} of them new." if summary.new else f"Done: {cards}."
