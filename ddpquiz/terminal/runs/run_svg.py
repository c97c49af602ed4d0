"""The last frame of a run as a picture: SVG that needs no network and no font of its own."""

import io
import re
from html import escape

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.runs.frame import frame

_WIDTH = 100  # columns
_MARGIN = 12  # units around the text of an SVG
_FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
_SVG = """<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<title>__TITLE__</title>
<style>
.{unique_id}-matrix {{ font-family: __FONTS__; font-size: {char_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
{lines}
</defs>
<rect x="-__MARGIN__" y="-__MARGIN__" width="100%" height="100%" rx="8" fill="__BACKGROUND__"/>
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</svg>
"""


def svg(state: RunState) -> str:
    """The last frame as SVG."""
    drawn = _drawn(state).export_svg(theme=DEFAULT_TERMINAL_THEME, code_format=_filled(_SVG, state))
    return re.sub(r'viewBox="0 0 (\S+) (\S+)"', _with_margin, drawn, count=1)


def _drawn(state: RunState) -> Console:
    console = style.console(io.StringIO(), width=_WIDTH, record=True, force_terminal=True, color_system="256")
    console.print(frame(describe_frame(state, shown_path), _WIDTH))
    return console


def _filled(template: str, state: RunState) -> str:
    """A template of ours, as rich formats it, with what does not depend on the frame."""
    title = plain(state.began.title or state.began.script) if state.began else "ddpquiz"
    values = {
        "TITLE": escape(title).replace("{", "{{").replace("}", "}}"),
        "FONTS": _FONTS,
        "MARGIN": str(_MARGIN),
        "BACKGROUND": DEFAULT_TERMINAL_THEME.background_color.hex,
    }
    return re.sub("__([A-Z]+)__", lambda name: values[name[1]], template)


def _with_margin(view: re.Match[str]) -> str:
    width, height = (float(size) + 2 * _MARGIN for size in view.groups())
    return f'viewBox="{-_MARGIN} {-_MARGIN} {width:g} {height:g}"'
