"""`ddpquiz` without a command: what is due, where you stand, and a key for what to do next."""

from __future__ import annotations

from ddpquiz.cli import session
from ddpquiz.curriculum import loading
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.sittings.home import Home, look, page
from ddpquiz.terminal.sittings.sitting import run_session


def home() -> None:
    """Show what is due, where you are strong and weak, and what to do next."""
    with session.context(loading.load()) as context:
        if is_interactive():
            run_session(Home(context), style.console())
        else:
            layout.show(style.console(), page(look(context)))
