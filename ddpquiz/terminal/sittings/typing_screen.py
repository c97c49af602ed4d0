"""Screens on which a text is typed: letters are text, and escape makes the next key a command.

`?` opens the help as long as nothing is typed.
"""

from abc import abstractmethod

from rich.text import Text

from ddpquiz.terminal.kit.hotkeys import HELP, Hotkey
from ddpquiz.terminal.kit.key_names import pasted
from ddpquiz.terminal.kit.key_screen import KeyScreen

ESCAPE = "escape"


class TypingScreen(KeyScreen):
    """A screen on which, while it is `writing`, all characters are text, also those that are keys elsewhere."""

    escaped = False  # the next key is a command, and only that one

    @property
    @abstractmethod
    def text(self) -> str:
        """What is typed so far."""

    @abstractmethod
    def enter(self, key: str) -> None:
        """Handle a key that is text or changes the text."""

    @abstractmethod
    def escape_keys(self) -> list[Hotkey]:
        """Return the keys that work after escape."""

    @abstractmethod
    def changes_text(self, key: str) -> bool:
        """Return whether a key changes the text or moves the cursor in it."""

    def commands(self) -> list[Hotkey]:
        return self.escape_keys() if self.writing and not self.escaped else []

    def handle_key(self, key: str) -> None:
        if self.helping or not self.writing:
            self.obey(key)
            return
        is_command, self.escaped = self.escaped and pasted(key) is None, False
        self.note = ""
        if not is_command and key == ESCAPE:
            self.escaped = True
        elif (key == HELP.key and not self.text) or (is_command and key in {each.key for each in self.escape_keys()}):
            self.obey(key)
        elif not is_command or len(key) == 1:
            self.enter(key)

    def obey(self, key: str) -> None:
        """Handle a key that is not text."""
        super().handle_key(key)

    def _scrolling(self, key: str) -> str:
        """Return the key as it scrolls: one that moves in the text scrolls nothing."""
        is_text = not self.helping and self.changes_text(key)
        return "" if is_text else super()._scrolling(key)


def command_line() -> Text:
    """Draw what stands in place of a text while a key is a command."""
    return Text.assemble(("command: ", "warn"), ("_", "accent"))
