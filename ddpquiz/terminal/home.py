"""The page that `ddpquiz` shows without a command: where the learner stands, what to do next, the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning.advice import advise
from ddpquiz.learning.mastery import Label
from ddpquiz.terminal.cards import forecast
from ddpquiz.terminal.layout import columns, section
from ddpquiz.terminal.style import plain, prose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ddpquiz.learning.advice import Advice, Standing

WELCOME = (
    "ddpquiz teaches distributed training: cards to recall, questions to answer, and demos that run real ranks here. "
    "`ddpquiz study` starts with the first card; what you learn comes back just before you would forget it. "
    "Whatever an answer claims, you can run it: press `d` for the demo and `p` for the proof."
)
COMMANDS = (
    ("study", "recall cards, each just before you would forget it"),
    ("test", "questions at three levels, each with the reason why"),
    ("demo", "run a demo on real ranks, live"),
    ("learn", "read the lesson of a concept"),
    ("explain", "say it in your own words"),
    ("list, search, show", "what there is to learn"),
    ("prove", "run the proof behind an answer"),
    ("run", "run a torchrun script of your own, watched"),
    ("doctor", "look whether everything works on this machine"),
)


def home(now: Standing) -> Group:
    """Draw the page."""
    parts: list[RenderableType] = [Text("ddpquiz", style="head"), Text()]
    parts.append(prose(WELCOME) if now.fresh else _standing(now))
    parts += section("Next", advice(advise(now)))
    rows = ((Text(f"ddpquiz {command}", style="code"), Text(what)) for command, what in COMMANDS)
    parts += section("Commands", columns(rows))
    return Group(*parts)


def advice(found: Sequence[Advice]) -> RenderableType:
    """Draw commands with the reasons to run them."""
    return columns((Text(plain(one.command), style="code"), Text(plain(one.why))) for one in found)


def _standing(now: Standing) -> RenderableType:
    labels = ", ".join(f"{count} {label}" for label, count in sorted(now.labels.items(), key=lambda pair: pair[0]))
    rows = [
        ("Due", f"{now.due} card{'s' * (now.due != 1)}"),
        ("New", f"{now.new_today} for today, {now.new} in all"),
        ("7 days", forecast(now.soon, now.day)),
        ("Concepts", labels),
    ]
    if now.weakest and now.weakness:
        rows.append(("Weakest", f"{now.weakest.title} ({now.weakest.id}): {now.weakness}"))
    elif now.tested and not any(count for label, count in now.labels.items() if label is not Label.UNKNOWN):
        rows.append(("Weakest", "not enough answers yet to say; ddpquiz test CONCEPT asks about one alone"))
    return columns((Text(name, style="quiet"), Text(plain(text))) for name, text in rows)
