"""`ddpquiz` without a command: how far you are, and one key for what to do next."""

from __future__ import annotations

from ddpquiz.cli import sitting
from ddpquiz.curriculum import loading
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.sittings.home_screen import page, visit_home
from ddpquiz.terminal.sittings.look import look


def home() -> None:
    """Show how far you are, what is due, and what to do next."""
    with sitting.open_sitting(loading.load()) as context:
        if is_interactive():
            visit_home(context, style.console())
        else:
            layout.show(style.console(), page(look(context)))
