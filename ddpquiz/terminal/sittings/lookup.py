"""Looking something up without leaving a sitting: words are typed, what holds them is listed, one of it is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.curriculum.concept import Question
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.key_names import typed
from ddpquiz.terminal.kit.layout import indented
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.pages.listing import heading, hit_name, one_line, to_read
from ddpquiz.terminal.sittings import question_view

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.search import Hit

_SHOWN = 8  # hits; more words find fewer
LOOK = Hotkey("/", "look up", "find a concept or an item by its words, read it, and come back here")


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is looked up: the words typed so far, what holds them, and which of it is marked, open and answered."""

    catalog: Catalog
    text: str = ""
    hits: tuple[Hit, ...] = ()
    at: int = 0
    open: bool = False
    answered: bool = False  # a question tells its answer only when that is asked for, too

    def key(self, key: str) -> Lookup | None:
        """Return what a key makes of it; None goes back to the sitting."""
        match key:
            case "escape":
                return replace(self, open=False, answered=False) if self.open else None
            case "enter" if self.open:
                return replace(self, answered=True)
            case _ if self.open:
                return self
            case "enter":
                return replace(self, open=bool(self.hits))
            case "down" | "tab":
                return replace(self, at=min(self.at + 1, max(0, len(self.hits) - 1)))
            case "up":
                return replace(self, at=max(0, self.at - 1))
            case "backspace":
                return self.typed(self.text[:-1])
            case "ctrl+u":
                return self.typed("")
            case _:
                return self.typed(self.text + text) if (text := typed(key)) else self

    def typed(self, text: str) -> Lookup:
        """Return it with other words."""
        return replace(self, text=text, hits=tuple(to_read(self.catalog.search(text))[:_SHOWN]), at=0)

    def spoken(self, words: str) -> Lookup:
        """Return it with these words, and what they name or alone fit open, for a terminal that only goes down.

        A question that is named tells its answer.
        """
        found = self.typed(words)
        at = next((at for at, hit in enumerate(found.hits) if hit.key == words), 0)
        is_named = any(hit.key == words for hit in found.hits)
        return replace(found, at=at, open=is_named or len(found.hits) == 1, answered=is_named)

    def body(self) -> RenderableType:
        """Draw what holds the words, or what is open."""
        if self.open:
            return self._page(self.hits[self.at])
        if not self.hits:
            return Text("Nothing holds these words." if self.text.strip() else "Type words; what holds all is listed.")
        lines: list[RenderableType] = []
        for number, hit in enumerate(self.hits):
            mark = "> " if number == self.at else "  "
            lines += [Text.assemble((mark, "key"), hit_name(hit)), indented(one_line(heading(hit)), 4)]
        return Group(*lines)

    def field(self) -> list[RenderableType]:
        """Draw the line in which the words are typed."""
        return [] if self.open else [Text(f"/{plain(self.text)}_")]

    def keys(self) -> list[Hotkey]:
        """Return the keys that work now."""
        back = Hotkey("esc", "back to the list" if self.open else "back to the card")
        if self.open:
            answer = [] if self.answered or self.hits[self.at].is_prose else [Hotkey("enter", "show the answer")]
            return [*answer, Hotkey("space", "next page"), back]
        if not self.hits:
            return [back]
        return [Hotkey("enter", "read"), Hotkey("↑↓", "choose"), back]

    def _page(self, hit: Hit) -> RenderableType:
        if hit.kind == "demo":
            return Group(hit_name(hit), Text(), prose(hit.more), Text(), Text(f"ddpquiz demo {hit.key}", style="code"))
        if hit.kind == "concept":
            from ddpquiz.terminal.pages.lesson import lesson

            return lesson(hit.concept)
        from ddpquiz.terminal.pages.item import item_page, sample

        item = self.catalog.item(hit.key)
        if isinstance(item, Question) and not self.answered:
            return Group(hit_name(hit), Text(), *question_view.asked(sample(item), hints=0))
        return item_page(item)
