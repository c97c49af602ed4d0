"""A run as one page: it needs no network, runs only its own script, and no text of a run can become markup."""

import base64
import hashlib
import json
import re
import zlib
from html import escape
from importlib.resources import files
from typing import Any

from ddpquiz.terminal.kit.style import plain
from ddpquiz.web.run_data import PageInput, run_data

PLAIN = 200_000  # characters of data up to which it stands in the page as it is, to be read and searched
_SAFE_LETTERS = str.maketrans("&<>", ",:[")  # no markup in base 85
_UNSAFE = re.compile("[<>&\u2028\u2029]")


def run_page(given: PageInput, back: str = "") -> str:
    """Return the page of a run; `back` is the address of the page that lists it."""
    data = _plain(run_data(given))
    style, script = asset("colors.css") + asset("run.css"), asset("run.js")
    values = {
        "TITLE": escape(data["title"] or data["script"] or "ddpquiz"),
        "BACK": f'<p><a href="{escape(back)}">All recorded runs</a></p>' if back else "",
        "POLICY": policy(style, script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": embedded(data),
    }
    return re.sub("__([A-Z]+)__", lambda found: values[found[1]], asset("run.html"))


def policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that allows this style and this script, and no request."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def embedded(data: Any) -> str:
    """Return data as JSON that can stand in a script element; much data becomes one text, compressed and in base 85."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(text) > PLAIN:
        packed = zlib.compress(text.encode("utf-8", "replace"), 9)
        text = json.dumps(base64.b85encode(packed).decode().translate(_SAFE_LETTERS))
    return safe_json(text)


def safe_json(text: str) -> str:
    """Return JSON without the characters that could end a script element."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def asset(name: str) -> str:
    """Return the text of a file beside this one."""
    return files("ddpquiz.web").joinpath(name).read_text("utf-8")


def _plain(value: Any) -> Any:
    """Return data whose texts hold no control characters and no marks that reverse the direction of writing."""
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() else plain(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    return value
