"""A screen on which one types: while letters are text, escape makes the next key a command."""

from abc import abstractmethod

from rich.text import Text

from ddpquiz.terminal.kit.key_screen import HELP, Hotkey, KeyScreen
from ddpquiz.terminal.kit.keys import pasted


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
        """The keys that work after escape."""

    @abstractmethod
    def changes_text(self, key: str) -> bool:
        """Whether a key changes the text or moves the cursor in it."""

    @property
    def letters_are_keys(self) -> bool:
        """Whether letters are keys although one types, since the text cannot begin with one."""
        return False

    def commands(self) -> list[Hotkey]:
        return self.escape_keys() if self.writing and not self.escaped and not self.letters_are_keys else []

    def handle_key(self, key: str) -> None:
        if self.helping or not self.writing:
            self.obey(key)
            return
        is_command, self.escaped = self.escaped and pasted(key) is None, False
        obeys = is_command or (self.letters_are_keys and pasted(key) is None)
        self.note = ""
        if key == "escape":
            self.escaped = True
            if is_command:
                self.obey(key)
        elif (key == HELP.key and not self.text) or (obeys and key in {each.key for each in self.escape_keys()}):
            self.obey(key)
        elif not is_command or len(key) == 1:
            self.enter(key)

    def obey(self, key: str) -> None:
        """Handle a key that is not text."""
        super().handle_key(key)

    def _scrolling(self, key: str) -> str:
        """The key as it scrolls: one that moves in the text scrolls nothing."""
        is_text = not self.helping and self.changes_text(key)
        return "" if is_text else super()._scrolling(key)


def command_line() -> Text:
    """Draw what stands in place of a text while a key is a command."""
    return Text.assemble(
        ("command: ", "warn"), ("_", "accent"), (" (press its key; any other key goes back to the text)", "quiet")
    )
