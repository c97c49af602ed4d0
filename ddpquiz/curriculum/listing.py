"""The listings of lessons as whole scripts: what stands around the code, and the code with one line changed."""

import ast
import re

IMPORTS = "import os, torch, torch.distributed as dist\n"  # on one line, as proofs and `output` questions have it
JOIN = 'dist.init_process_group("gloo")\nrank = dist.get_rank()\nworld_size = dist.get_world_size()\n'
_SUPPLIED = {"os", "torch", "dist", "rank", "world_size"}
_DDP = re.compile(r"^(\w+) = .*\b(?:DistributedDataParallel|DDP)\(", re.MULTILINE)
_FOR_DDP = "import torch.distributed.nn  # before the group: a script with DDP may abort at its end otherwise\n"
_LEAVE = "dist.destroy_process_group()\n"


def whole_script(code: str) -> str:
    """The script that runs for a listing: its code with a head and a tail.

    The head imports, forms the group, and sets `rank` and `world_size`; the tail ends the group. Both are supplied if
    the code uses one of the names of the head without defining it. Code that forms the group itself gets the imports
    only.
    """
    if not needs_head(code):
        return f"{code}\n"
    if "init_process_group" in code:
        return f"{IMPORTS}\n{code}\n"
    wrapped = "".join(f"del {name}\n" for name in dict.fromkeys(_DDP.findall(code)))
    imports = IMPORTS + (_FOR_DDP if wrapped else "")
    leave = "" if "destroy_process_group" in code else f"\n{wrapped}{_LEAVE}"
    return f"{imports}{JOIN}\n{code}\n{leave}"


def needs_head(code: str) -> bool:
    """Whether code uses a name of the head, such as `torch` or `rank`, without defining it."""
    return bool(_SUPPLIED & _undefined(code))


def _undefined(code: str) -> set[str]:
    """The names that code reads and never defines; all of the head if it is not valid Python."""
    try:
        names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name | ast.alias)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _SUPPLIED
    defined = {(each.asname or each.name).partition(".")[0] for each in names if isinstance(each, ast.alias)}
    defined |= {each.id for each in names if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    return {each.id for each in names if isinstance(each, ast.Name)} - defined


def places_of_line(code: str, line: str) -> list[int]:
    """The places, from 0, of the lines that equal a line, apart from indentation."""
    return [place for place, each in enumerate(code.splitlines()) if each.strip() == line.strip()]


def marked_change(line: str, to: str) -> list[tuple[str, str]]:
    """The lines that stand in place of a line, each with its mark: + is new, - is gone, a blank was there."""
    after = [(" " if each == line else "+", each) for each in to.splitlines()]
    return after if (" ", line) in after else [("-", line), *after]


def changed_code(code: str, line: str, to: str) -> str:
    """Return code with another text in place of a line that occurs in it, at the indentation of that line."""
    lines = code.splitlines()
    place = places_of_line(code, line)[0]
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    lines[place : place + 1] = [indent + each if each.strip() else each for each in to.splitlines()]
    return "\n".join(lines)
