"""Where the learner stands, as the home screen and the page for a pipe show it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.learning.mastery import Label
from ddpquiz.learning.standing import Standing, advise
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.pages.stats import counted, streak
from ddpquiz.terminal.sittings.card_view import forecast

WELCOME = (
    "ddpquiz teaches distributed training: cards to recall, questions to answer, and demos that run real ranks on this "
    "machine. What you learn comes back just before you would forget it, and every answer is saved at once. You can "
    "run what an answer claims: press `d` for the demo and `p` for the proof."
)
COMMANDS = (
    ("study", "recall cards, each just before you would forget it"),
    ("test", "answer questions at three levels, and read why each wrong answer is wrong"),
    ("explain", "explain a concept in your own words, and check your points"),
    ("demo", "run a demo on real ranks, live"),
    ("learn", "read the lesson of a concept"),
    ("list, search, show", "see what there is to learn"),
    ("prove", "run the proof behind an answer"),
    ("run", "run your own torchrun script and watch it"),
    ("stats", "see what you recall, and how strong you are"),
    ("doctor", "check that everything works on this machine"),
)
_TRACKS = 5  # that are shown


def standing(now: Standing) -> RenderableType:
    """Draw where the learner stands."""
    return Group(Text("ddpquiz", style="head"), Text(), prose(WELCOME) if now.fresh else _figures(now))


def page(now: Standing) -> Group:
    """Draw the page for a pipe: where the learner stands, what to do next, and the commands."""
    advised = columns((Text(plain(one.command), style="code"), Text(plain(one.why))) for one in advise(now))
    rows = ((Text(f"ddpquiz {command}", style="code"), Text(what)) for command, what in COMMANDS)
    return Group(standing(now), *section("Next", advised), *section("Commands", columns(rows)))


def _figures(now: Standing) -> RenderableType:
    rows = [
        ("Due", due(now)),
        ("New", _new(now)),
        ("Coming up", f"in the next seven days: {forecast(now.soon, now.day)}"),
        ("Streak", streak(now.streak)),
    ]
    if now.weakest and now.weakness:
        rows.append(("Weakest", f"{now.weakest.title} ({now.weakest.id}): {now.weakness.short}"))
    elif now.tested and not any(count for label, count in now.labels.items() if label is not Label.UNKNOWN):
        rows.append(("Weakest", "unknown until you have answered more questions about one concept"))
    lines = columns((Text(name, style="quiet"), Text(plain(text))) for name, text in rows)
    return Group(lines, *(section("Tracks, the weakest first", _tracks(now)) if now.tracks else []))


def _tracks(now: Standing) -> RenderableType:
    def counts(labels: dict[Label, int]) -> str:
        return ", ".join(f"{labels[label]} {label}" for label in Label if labels[label])

    rows = [(Text(plain(one.track)), Text(counts(one.labels), style="quiet")) for one in now.tracks[:_TRACKS]]
    more = len(now.tracks) - _TRACKS
    return Group(
        columns(rows), *([Text(f"{counted(more, 'more track')}, stronger", style="quiet")] if more > 0 else [])
    )


def _new(now: Standing) -> str:
    if not now.new:
        return "none left"
    today = f"{now.new_today} for today" if now.new_today else f"today's {now.begun} are done"
    return f"{today}, {counted(now.new, 'card')} not seen yet"


def due(now: Standing) -> str:
    """Return how many cards are due now, and how many come again today."""
    again = f"{now.again if now.due else counted(now.again, 'card')} coming again" if now.again else ""
    due = f"{counted(now.due, 'card')} due now" if now.due else "" if again else "Nothing is due now"
    return f"{', '.join(filter(None, (due, again)))}."
