"""The keys that work now: the line at the bottom that names them, and the page that explains them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.layout import columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Hotkey:
    """A key that works now: its name, what it does in a word or two, and in a sentence."""

    key: str
    does: str
    more: str = ""

    def __str__(self) -> str:
        return f"{self.key} {self.does}"


HELP = Hotkey("?", "help", "the keys that work now")
FLAG = Hotkey("f", "flag", "note that something is wrong with this item; again takes it back")
DEMO = Hotkey("d", "demo", "run this concept's demo on real ranks, and come back here")
PROOF = Hotkey("p", "proof", "run the proof on real ranks, and come back here")
SOURCE = Hotkey("v", "source", "where this was read")
QUIT = Hotkey("q", "quit", "end the sitting; every answer is kept already")


def key_line(keys: Iterable[Hotkey], width: int) -> Text:
    """Draw one line that names keys, as many as fit; help and quit always do."""
    keys = list(keys)
    last = [key for key in keys if key in (HELP, QUIT)]
    kept = [key for key in keys if key not in last]
    while kept and sum(len(f"{key} · ") for key in [*kept, *last]) - 3 > width:
        kept.pop()
    line = Text(no_wrap=True, overflow="ellipsis")
    for key in [*kept, *last]:
        if line:
            line.append(" · ", style="quiet")
        line.append(key.key, style="key").append(f" {key.does}")
    return line


def help_page(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw what each key does, in sentences."""
    return Group(
        Text("Keys that work here", style="head"),
        Text(),
        columns((Text(key.key, style="key"), Text(key.more or key.does)) for key in keys),
    )
