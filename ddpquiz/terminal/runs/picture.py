"""The last frame of a run as a picture: SVG or HTML that needs no network and no font of its own."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from ddpquiz.terminal.kit import style
from ddpquiz.terminal.runs.frame import frame

if TYPE_CHECKING:
    from rich.console import Console

    from ddpquiz.analysis.run_state import RunState

WIDTH = 100  # columns
FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
{{stylesheet}}
body {{{{ color: {{foreground}}; background-color: {{background}}; }}}}
pre {{{{ font-family: {fonts}; line-height: 1.25; }}}}
</style>
</head>
<body>
<pre><code>{{code}}</code></pre>
</body>
</html>
"""


def svg(state: RunState) -> str:
    """Return the last frame as SVG."""
    drawn = _drawn(state).export_svg(title=_title(state), theme=DEFAULT_TERMINAL_THEME)
    drawn = re.sub(r"@font-face\s*\{.*?\}", "", drawn, flags=re.DOTALL)  # rich would fetch its font from the network
    return re.sub(r"font-family:[^;]*;", f"font-family: {FONTS};", drawn)


def html(state: RunState) -> str:
    """Return the last frame as a page of HTML."""
    page = HTML.format(title=_escaped(_title(state)), fonts=FONTS)
    return _drawn(state).export_html(theme=DEFAULT_TERMINAL_THEME, code_format=page)


def _drawn(state: RunState) -> Console:
    console = style.console(io.StringIO(), width=WIDTH, record=True, force_terminal=True, color_system="256")
    console.print(frame(state, WIDTH))
    return console


def _title(state: RunState) -> str:
    return style.plain(state.began.title or state.began.script if state.began else "ddpquiz")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("{", "{{").replace("}", "}}")
