"""The demos as a folder of scripts: what each shows and which flags it takes, read without running it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo script: its name, what it says about itself and the first line of that, its flags, and its text.

    `restarts` is how often its ranks are started again when one fails, by the command in its docstring.
    """

    name: str
    about: str
    summary: str
    flags: tuple[str, ...]
    source: str
    restarts: int = 0


def demo_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the demos in a folder."""
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.name.startswith(("_", "."))))


def demos(folder: Path) -> tuple[Demo, ...]:
    """Read every demo in a folder; raises UserError when one cannot be read."""
    return tuple(read_demo(folder / f"{name}.py") for name in demo_names(folder))


def read_demo(path: Path) -> Demo:
    """Read one demo; raises UserError when it cannot be read."""
    try:
        source = path.read_text("utf-8")
        tree = ast.parse(source, path.name)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise UserError(f"The demo {path.stem} cannot be read: {problem or 'it is nested too deeply'}.") from None
    flags = (flag for node in ast.walk(tree) for flag in _flags(node))
    about = ast.get_docstring(tree) or ""
    restarts = re.search(r"^ +torchrun .*--max-restarts[ =](\d+)", about, re.MULTILINE)
    return Demo(
        path.stem,
        about,
        about.partition("\n")[0],
        tuple(sorted(set(flags))),
        source,
        int(restarts[1]) if restarts else 0,
    )


def _flags(node: ast.AST) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=args):
            names = [argument.value for argument in args if isinstance(argument, ast.Constant)]
            return [name for name in names if isinstance(name, str) and name.startswith("-")]
        case _:
            return []
