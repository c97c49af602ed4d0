"""The further pages of a lesson on a screen of their own."""

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text

from ddpquiz.curriculum.concept import Concept
from ddpquiz.learning.guided_path import StageState, further_pages
from ddpquiz.terminal.kit.key_screen import GOES_BACK, HELP, QUIT, Hotkey, KeyScreen
from ddpquiz.terminal.kit.layout import MEASURE, header, spaced
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import console
from ddpquiz.terminal.pages.lesson_steps import markdown_of, script_notes
from ddpquiz.terminal.sittings.sitting import SittingContext

MORE = (
    "read the extra pages: more examples, measurements, rare details; once you have read them to the end, `study` has "
    "cards on them, too"
)


class MoreScreen(KeyScreen):
    """The further pages of a lesson; once their end was on the screen, study asks the cards on them."""

    def __init__(self, context: SittingContext, concept: Concept, *, back_to: str) -> None:
        super().__init__()
        self._context, self._concept = context, concept
        does = f"back to {back_to} (or enter, u, m, q)"
        self._back = Hotkey("esc", "back", does, also=("m", "enter", "u", *GOES_BACK))

    @property
    def reading(self) -> bool:
        return True

    def body(self) -> RenderableType:
        return further_text(self._concept)

    def keys(self) -> list[Hotkey]:
        return [self._back, HELP]

    def press(self, key: str) -> None:
        if key not in ("escape", QUIT.key):
            return
        item = further_pages(self._concept)
        if not self.more and item not in {row.item for row in self._context.progress.entries("stage")}:
            self._context.progress.stage(item, StageState.DONE, self._context.clock())
        self.left = True


def further_text(concept: Concept) -> RenderableType:
    """Draw what the further pages say."""
    notes = script_notes(concept.more, concept.id)
    return Group(header(concept.title, "more"), Text(), *spaced([markdown_of(concept.more), *notes]))


def count_pages(concept: Concept) -> int:
    """How many screenfuls the further pages fill; they are drawn to be measured."""
    rows = len(console().render_lines(Constrain(further_text(concept), MEASURE), pad=False))
    return Screen.pages(rows, console().height)
