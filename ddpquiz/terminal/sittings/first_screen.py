"""The first screen of all: one question that anybody can answer, and four ranks on this machine that answer it too."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.errors import UserError
from ddpquiz.terminal.kit.key_screen import HELP, QUIT, Hotkey, KeyScreen
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.layout import columns, indented
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings.rank_runner import RankRunner

if TYPE_CHECKING:
    from ddpquiz.ranks.content_runner import CodeRun

_RANKS = 4
_OPTIONS = ("only rank 0, to which the others send", "only rank 3, which adds last", "all four ranks")
_RIGHT = _OPTIONS[2]
SCRIPT = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.tensor(dist.get_rank() + 1)
dist.all_reduce(x)
print(x.item())
dist.destroy_process_group()
"""
_LOOK = 0.03  # seconds between two looks at the keys while the ranks run
_PATIENCE = 30.0  # seconds without movement after which the ranks hang
_WELCOME = (
    "ddpquiz teaches distributed training: you say what will happen, and real processes on this machine show it. "
    "Here are four of them, called ranks; each holds one number. Now all four call `all_reduce`, which adds up the "
    "numbers."
)


class FirstContact(KeyScreen):
    """The question, and what the ranks say to it. Nothing of it is saved.

    `goes_on` is True once the learner wants the first lesson, which has the title `lesson`.
    """

    def __init__(self, ranks: RankRunner, lesson: str) -> None:
        super().__init__()
        self._ranks, self._lesson = ranks, lesson
        self._chosen = ""
        self._run: CodeRun | None = None
        self._printed: dict[int, str] = {}
        self._failed = ""  # why the ranks showed nothing
        self.goes_on = False
        self.quits = False

    @property
    def is_over(self) -> bool:
        """Whether all ranks have answered, or cannot."""
        return bool(self._failed) or len(self._printed) == _RANKS

    @property
    def scene(self) -> Hashable:
        return self._chosen, self.is_over

    def body(self) -> RenderableType:
        rows = [(Text(f"rank {rank}"), Text(str(rank + 1)), self._held(rank)) for rank in range(_RANKS)]
        head: list[RenderableType] = [
            Text("ddpquiz", style="head"),
            Text(),
            prose(_WELCOME),
            Text(),
            indented(columns(rows)),
            Text(),
        ]
        return Group(*head, *(self._verdict() if self._chosen else self._question()))

    def _held(self, rank: int) -> Text:
        if rank in self._printed:
            return Text(f"→ {plain(self._printed[rank])}", style="good")
        return Text("→ …" if self._chosen and not self._failed else "", style="quiet")

    def _question(self) -> list[RenderableType]:
        options = [(Text(str(number), style="key"), Text(text)) for number, text in enumerate(_OPTIONS, 1)]
        return [prose("Which ranks will hold the sum?", "bold"), Text(), indented(columns(options))]

    def _verdict(self) -> list[RenderableType]:
        if self._failed:
            return [prose(self._failed, "bad"), prose("`ddpquiz doctor` says what is missing.")]
        if not self.is_over:
            return [Text(f"You said: {self._chosen}. Four processes start …", style="quiet")]
        if self._chosen == _RIGHT:
            said = Text("✓ Right: each rank has printed what it now holds, 1 + 2 + 3 + 4 = 10.", style="good")
        else:
            said = prose(f"✗ You said: {self._chosen}. It is {_RIGHT}: each now holds 1 + 2 + 3 + 4 = 10.", "bad")
        call = (
            "The “all” in `all_reduce` says who gets the result. Training one model on many GPUs does the same with "
            "gradients. This answer does not count. The first lesson is next."
        )
        return [said, Text(), prose(call)]

    def keys(self) -> list[Hotkey]:
        home = Hotkey("esc", "back", "skip this, and go to the home screen")
        if not self._chosen:
            return [
                Hotkey(f"1-{len(_OPTIONS)}", "answer", "say who will hold the sum; it does not count"),
                home,
                HELP,
                QUIT,
            ]
        on = Hotkey("enter", "go on", f'learn "{self._lesson}"', also=("space",))
        return [*([on] if self.is_over else []), home, HELP, QUIT]

    def press(self, key: str) -> None:
        if key in ("q", "escape"):
            self.quits, self.left = key == "q", True
        elif not self._chosen and key.isdecimal() and 1 <= int(key) <= len(_OPTIONS):
            self._chosen = _OPTIONS[int(key) - 1]
        elif self.is_over and key == "enter":
            self.goes_on = self.left = True

    def opened(self) -> None:
        self._ranks.warm()

    def wait(self, keys: Keys) -> str | None:
        """Wait for a key; while the ranks run, also for what they print."""
        while self._chosen and not self.is_over:
            if self._advance():
                return None
            if key := keys.get(0):
                return key
        return super().wait(keys)

    def _advance(self) -> bool:
        """Follow the ranks for a moment; return whether there is something new to show."""
        from ddpquiz.ranks.content_runner import CodeRun
        from ddpquiz.ranks.server_connection import server  # the question does not wait for what starts ranks

        try:
            if self._run is None:
                if server().is_ready(_LOOK):
                    self._run = CodeRun(SCRIPT, _RANKS, _PATIENCE)
                return False
            ended, before = self._run.read(_LOOK), len(self._printed)
        except UserError as error:
            self._failed = str(error)
            return True
        observed = self._run.observed
        self._printed = {rank: text for rank, text in observed.printed.items() if text}
        if ended and not self.is_over:
            self._failed = f"The ranks did not answer: {observed.raised or observed.failed or 'they printed nothing'}."
        return self.is_over or len(self._printed) > before

    def loop(self, screen: Screen, keys: Keys) -> None:
        try:
            super().loop(screen, keys)
        finally:
            if self._run:
                with self._run:  # no rank is left
                    pass
