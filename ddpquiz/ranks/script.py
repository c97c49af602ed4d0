"""A script that ranks are to run: where it is, what it claims, and what in it cannot take effect here."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.errors import UserError
from ddpquiz.ranks import claims

if TYPE_CHECKING:
    from ddpquiz.analysis.events import ClaimText

# What torch and its libraries read while they are imported, which has happened before a script begins.
READ_AT_IMPORT = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|TORCHDYNAMO|TORCHINDUCTOR|TORCH_COMPILE)_\w+|PYTORCH_JIT\w*|"
    r"TORCH_(LOGS\w*|TRACE|CPP_LOG_LEVEL|DEVICE_BACKEND_AUTOLOAD)"
)


@dataclass(frozen=True, slots=True)
class Script:
    """What was read of a script; of its docstring, `title` is the first line and `look` what is in backticks."""

    path: Path
    source: str
    title: str
    claims: tuple[ClaimText, ...]
    notes: tuple[str, ...] = ()
    look: tuple[str, ...] = ()


def read(path: Path) -> Script:
    """Return a script, or raise UserError when it cannot be run."""
    try:
        data = path.read_bytes()
        tree = ast.parse(data)
        with io.TextIOWrapper(io.BytesIO(data), tokenize.detect_encoding(io.BytesIO(data).readline)[0]) as text:
            source = text.read()
    except FileNotFoundError:
        meant = path.with_name(f"{path.name}.py")
        raise UserError(f"There is no script {path}{f'; did you mean {meant}?' if meant.is_file() else '.'}") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name the script in it that is to run.") from None
    except SyntaxError as wrong:
        if "codec can't decode" in wrong.msg or "encoding" in wrong.msg:
            raise UserError(
                f"{path} is no UTF-8 text; save it as UTF-8, or name its encoding in the first line: # coding: latin-1"
            ) from None
        raise UserError(f"{path}:{wrong.lineno}: {wrong.msg}; Python cannot read this script.") from None
    except (OSError, ValueError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else wrong
        raise UserError(f"{path} cannot be read: {reason}.") from None
    about = ast.get_docstring(tree) or ""
    look = tuple(" ".join(named.split()) for named in re.findall(r"`([^`]+)`", about))
    return Script(path, source, about.partition("\n")[0], claims.find(tree), tuple(_too_late(tree)), look)


def of_module(name: str) -> Path:
    """Return the file of a module that `python -m` could run from here, without importing anything."""
    places: list[str] | None = [str(Path.cwd()), *sys.path]
    spec = None
    done: list[str] = []
    for part in name.split("."):
        done.append(part)
        spec = PathFinder.find_spec(".".join(done), places)
        if spec is None:
            break
        places = list(spec.submodule_search_locations) if spec.submodule_search_locations is not None else []
    if spec is not None and spec.submodule_search_locations is not None:
        spec = PathFinder.find_spec(f"{name}.__main__", places)
        done.append("__main__")
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise UserError(f"There is no module {'.'.join(done)}; -m looks where `python -m` does, in {Path.cwd()} first.")
    return Path(spec.origin)


def _too_late(tree: ast.Module) -> list[str]:
    """Say which variables the script sets for a torch that it is going to import, and which is imported already."""
    first = min((getattr(node, "lineno", 0) for node in ast.walk(tree) if _imports_torch(node)), default=0)
    names = {name for node in ast.walk(tree) if getattr(node, "lineno", first) < first for name in _sets(node)}
    return [
        f"{name}, which the script sets, is read when torch is imported, and it has been; "
        f"set it in the shell: {name}=... ddpquiz run ..."
        for name in sorted(names)
        if READ_AT_IMPORT.fullmatch(name)
    ]


def _imports_torch(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name.split(".")[0] == "torch" for alias in names)
        case ast.ImportFrom(module=str(module)):
            return module.split(".")[0] == "torch"
    return False


def _sets(node: ast.AST) -> list[str]:
    """Return the variables of the environment that a statement sets."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=where, slice=ast.Constant(value=str(name)))]):
            return [name] if ast.unparse(where).endswith("environ") else []
        case ast.Call(func=ast.Attribute(attr="setdefault" | "putenv") as call, args=[ast.Constant(str(name)), *_]):
            return [name] if re.search(r"environ|putenv", ast.unparse(call)) else []
        case ast.Call(func=ast.Attribute(attr="update") as call, args=[ast.Dict(keys=keys)]):
            named = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            return named if "environ" in ast.unparse(call) else []
    return []
