"""The demos as a folder of scripts: what each shows and which flags it takes, read without running it."""

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from inspect import cleandoc
from pathlib import Path

from ddpquiz.errors import UserError

_DOCSTRING = re.compile(
    r'\A(?:#.*\n|\s)*"""(.*?)"""', re.DOTALL
)  # parsing every script would make the list of demos slow
DEMO_PATIENCE = 10.0  # seconds without progress of a demo that count as a hang
_RESTARTS = re.compile(r"^ +torchrun .*--max-restarts[ =](\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Demo:
    """A demo script: its name, its docstring and its text."""

    name: str
    about: str
    source: str

    @property
    def summary(self) -> str:
        return self.about.partition("\n")[0]

    @property
    def restarts(self) -> int:
        """How often failed ranks are restarted, according to the command in the docstring."""
        option = _RESTARTS.search(self.about)
        return int(option[1]) if option else 0

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The options of the script. UserError if it is not valid Python."""
        try:
            tree = ast.parse(self.source, f"{self.name}.py")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            raise _unreadable(self.name, problem) from None
        return tuple(sorted({flag for node in ast.walk(tree) for flag in _flags(node)}))


def demo_names(folder: Path) -> tuple[str, ...]:
    """The names of the demos in a folder."""
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.name.startswith(("_", "."))))


def demos(folder: Path) -> tuple[Demo, ...]:
    """Read every demo in a folder. UserError if one cannot be read."""
    return tuple(read_demo(folder / f"{name}.py") for name in demo_names(folder))


def read_demo(path: Path) -> Demo:
    """Read one demo. UserError if it cannot be read."""
    try:
        source = path.read_text("utf-8")
    except (OSError, ValueError) as problem:
        raise _unreadable(path.stem, problem) from None
    docstring = _DOCSTRING.match(source)
    return Demo(path.stem, cleandoc(docstring[1]) if docstring else "", source)


def _unreadable(name: str, problem: Exception) -> UserError:
    return UserError(f"The demo {name} cannot be read: {problem or 'it is nested too deeply'}.")


def _flags(node: ast.AST) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=args):
            names = [argument.value for argument in args if isinstance(argument, ast.Constant)]
            return [name for name in names if isinstance(name, str) and name.startswith("-")]
        case _:
            return []
