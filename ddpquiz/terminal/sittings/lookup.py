"""Search in the middle of a sitting: type words, choose one of the hits, read it, and come back."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.search import Hit
from ddpquiz.paths import demo_file
from ddpquiz.terminal.kit.key_screen import GOES_BACK, HELP, QUIT, Hotkey, KeyScreen
from ddpquiz.terminal.kit.keys import typed
from ddpquiz.terminal.kit.layout import indented
from ddpquiz.terminal.kit.style import prose
from ddpquiz.terminal.kit.text_area import TextArea
from ddpquiz.terminal.pages.item import named
from ddpquiz.terminal.pages.lists import heading, one_line, to_read
from ddpquiz.terminal.sittings import question_view

_SHOWN = 8  # hits; more words find fewer
_WIDE = 1_000_000  # columns: the words are one line
_EMPTY = TextArea()


@dataclass(frozen=True, slots=True)
class Lookup:
    """A search: the words typed so far, the hits, and which of them is marked, open and answered."""

    catalog: Catalog
    area: TextArea = _EMPTY
    hits: tuple[Hit, ...] = ()
    at: int = 0
    open: bool = False
    answered: bool = False  # the answer to an open question is shown

    def key(self, key: str) -> Lookup | None:
        """The search after a key; None closes it."""
        match key:
            case _ if self.open and key in GOES_BACK:
                return replace(self, open=False, answered=False)
            case "escape":
                return None
            case "enter" if self.asks:
                return replace(self, answered=True)
            case _ if self.open:
                return self
            case "enter":
                return replace(self, open=bool(self.hits))
            case "down" | "tab":
                return replace(self, at=min(self.at + 1, max(0, len(self.hits) - 1)))
            case "up":
                return replace(self, at=max(0, self.at - 1))
            case _:
                return self._edited(self.area.insert(text) if (text := typed(key)) else self.area.key(key, _WIDE))

    @property
    def asks(self) -> bool:
        """Whether a question is open whose answer is not shown yet."""
        return self.open and not self.answered and not self.hits[self.at].is_prose

    def changes_text(self, key: str) -> bool:
        """Whether a key changes the words or moves the cursor in them."""
        found = self.key(key)
        return found is not None and found.area != self.area

    def _edited(self, area: TextArea) -> Lookup:
        if area.text == self.area.text:
            return replace(self, area=area)
        return replace(self, area=area, hits=tuple(to_read(self.catalog.search(area.text))[:_SHOWN]), at=0)

    def opened(self, words: str) -> Lookup:
        """The search for these words, for a terminal that cannot be painted.

        A hit is opened if it is the only one or if the words are its name; a question that is named shows its answer.
        """
        found = self._edited(TextArea().insert(words))
        at = next((at for at, hit in enumerate(found.hits) if hit.key == words), 0)
        is_named = any(hit.key == words for hit in found.hits)
        return replace(found, at=at, open=is_named or len(found.hits) == 1, answered=is_named)

    def body(self) -> RenderableType:
        if self.open:
            return self._page(self.hits[self.at])
        if not self.hits:
            return Text("Nothing found." if self.area.text.strip() else "Type words to search for.")
        lines: list[RenderableType] = []
        for number, hit in enumerate(self.hits):
            mark = "> " if number == self.at else "  "
            lines += [Text.assemble((mark, "key"), named(hit.key, hit.kind)), indented(one_line(heading(hit)), 4)]
        return Group(*lines)

    def field(self) -> list[RenderableType]:
        return [] if self.open else [Text.assemble("/", self.area.line())]

    def keys(self) -> list[Hotkey]:
        if self.open:
            back = Hotkey("esc", "back to the list", "back to the list (or q, backspace)", also=GOES_BACK)
            return [*([Hotkey("enter", "show the answer")] if self.asks else []), back, HELP]
        back = Hotkey("esc", "back")
        if not self.hits:
            return [back]
        return [Hotkey("enter", "read"), Hotkey("↑↓", "choose"), back]

    def _page(self, hit: Hit) -> RenderableType:
        if hit.kind == "demo":
            return _demo_page(hit)
        if hit.kind == "lab":
            command = Text(f"ddpquiz lab {hit.key}", style="code")
            return Group(named(hit.key, hit.kind), Text(), prose(hit.heading, "bold"), prose(hit.more), Text(), command)
        if hit.kind == "concept":
            from ddpquiz.terminal.pages.lesson import lesson

            return lesson(hit.concept)
        from ddpquiz.terminal.pages.item import item_page, sample

        item = self.catalog.item(hit.key)
        if isinstance(item, Question) and not self.answered:
            return Group(named(hit.key, hit.kind), Text(), *question_view.asked(sample(item), hints=0))
        return item_page(item)


class SearchScreen(KeyScreen):
    """A search on a screen of its own."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.lookup = Lookup(catalog)

    @property
    def scene(self) -> Hashable:
        look = self.lookup
        return look.open, look.answered, look.hits if look.open else ()

    @property
    def reading(self) -> bool:
        return self.lookup.open

    @property
    def writing(self) -> bool:
        return not self.lookup.open

    @property
    def turning(self) -> tuple[str, ...]:
        asks = self.lookup.asks and not self.helping
        return ("space",) if asks else super().turning  # enter shows the answer

    def body(self) -> RenderableType:
        return self.lookup.body()

    def above_keys(self) -> list[RenderableType]:
        return self.lookup.field()

    def keys(self) -> list[Hotkey]:
        return self.lookup.keys()

    def handle_key(self, key: str) -> None:
        if self.writing:  # every key but a few is text
            self._obey(key)
        else:
            super().handle_key(key)

    def press(self, key: str) -> None:
        self._obey("escape" if self.writing and key == QUIT.key else key)  # ctrl+d leaves

    def _obey(self, key: str) -> None:
        after = self.lookup.key(key)
        self.left = after is None
        self.lookup = after or self.lookup

    def _scrolling(self, key: str) -> str:
        """The key as it scrolls: one that moves in the words scrolls nothing."""
        return "" if self.lookup.changes_text(key) else super()._scrolling(key)


def _demo_page(hit: Hit) -> RenderableType:
    """What a demo shows, how to run it, and what to try with it."""
    from ddpquiz.terminal.runs.script import of_script, tries

    about = "\n\n".join(part for part in hit.more.split("\n\n") if not part.startswith("Try "))
    command = Text(f"ddpquiz demo {hit.key}", style="code")
    suggested = of_script(str(demo_file(hit.key)))
    more = [Text(), *tries(suggested)] if suggested else []
    return Group(named(hit.key, hit.kind), Text(), prose(about), Text(), command, *more)
