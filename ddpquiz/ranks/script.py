"""A script that ranks run: where it is, what it says of itself, and which of its settings come too late."""

import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.atomic_file import is_pipe_or_device
from ddpquiz.errors import UserError
from ddpquiz.events.event import ClaimText
from ddpquiz.paths import pack_of
from ddpquiz.ranks.claims import find_claims

if TYPE_CHECKING:  # a recorded rank looks for its script, and reads nothing of a pack
    from ddpquiz.curriculum.pack_consent import AllowedPack


# Variables that torch and its libraries read when they are imported, which is before a script begins.
_READ_AT_IMPORT = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|TORCHDYNAMO|TORCHINDUCTOR|TORCH_COMPILE)_\w+|PYTORCH_JIT\w*|"
    r"TORCH_(LOGS\w*|TRACE|CPP_LOG_LEVEL|DEVICE_BACKEND_AUTOLOAD)"
)


@dataclass(frozen=True, slots=True)
class Script:
    """A script as read; `title` is the first line of its docstring, `highlighted` the labels in backticks there.

    `pack` is the pack to which it belongs, if there is one, as the learner allowed it.
    """

    path: Path
    source: str
    title: str
    claims: tuple[ClaimText, ...]
    notes: tuple[str, ...] = ()
    highlighted: tuple[str, ...] = ()
    pack: "AllowedPack | None" = None


def read(path: Path) -> Script:
    """A script; UserError if Python cannot run it, or if its pack may not run."""
    from ddpquiz.curriculum.pack_consent import allowed_pack

    pack = allowed_pack(pack_of(path))
    if is_pipe_or_device(path):
        raise UserError(f"{path} is a pipe or a device. Save the script as a file, and name that.")
    try:
        data = pack.read(path) if pack else path.read_bytes()
        tree = ast.parse(data)
        with io.TextIOWrapper(io.BytesIO(data), tokenize.detect_encoding(io.BytesIO(data).readline)[0]) as text:
            source = text.read()
    except FileNotFoundError:
        meant = path.with_name(f"{path.name}.py")
        raise UserError(f"There is no script {path}{f'; did you mean {meant}?' if meant.is_file() else '.'}") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name a script in it.") from None
    except SyntaxError as wrong:
        if "codec can't decode" in wrong.msg or "encoding" in wrong.msg:
            raise UserError(
                f"{path} is not UTF-8; save it as UTF-8, or name its encoding in the first line: # coding: latin-1"
            ) from None
        raise UserError(f"{path}:{wrong.lineno}: {wrong.msg}; Python cannot read this script.") from None
    except (RecursionError, MemoryError):
        raise UserError(f"{path} is nested too deeply; Python cannot read this script.") from None
    except (OSError, ValueError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else wrong
        raise UserError(f"{path} cannot be read: {reason}.") from None
    about = ast.get_docstring(tree) or ""
    highlighted = tuple(" ".join(named.split()) for named in re.findall(r"`([^`]+)`", about))
    return Script(path, source, about.partition("\n")[0], find_claims(tree), tuple(_too_late(tree)), highlighted, pack)


def of_module(name: str) -> Path:
    """The file that `python -m name` would run from here, without importing anything; UserError if none."""
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
        raise UserError(
            f"There is no module {'.'.join(done)}; -m searches where `python -m` does, first in {Path.cwd()}."
        )
    return Path(spec.origin)


def _too_late(tree: ast.Module) -> list[str]:
    """A note for each variable that the script sets before it imports torch, which is imported already."""
    first = min((getattr(node, "lineno", 0) for node in ast.walk(tree) if _imports_torch(node)), default=0)
    names = {name for node in ast.walk(tree) if getattr(node, "lineno", first) < first for name in _sets(node)}
    return [
        f"The script sets {name}, but torch reads it when it is imported, and ddpquiz imports torch before the "
        f"script begins; set it in the shell: {name}=... ddpquiz run ..."
        for name in sorted(names)
        if _READ_AT_IMPORT.fullmatch(name)
    ]


def _imports_torch(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name.split(".")[0] == "torch" for alias in names)
        case ast.ImportFrom(module=str(module)):
            return module.split(".")[0] == "torch"
    return False


def _sets(node: ast.AST) -> list[str]:
    """The environment variables that a statement sets."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=where, slice=ast.Constant(value=str(name)))]):
            return [name] if ast.unparse(where).endswith("environ") else []
        case ast.Call(func=ast.Attribute(attr="setdefault" | "putenv") as call, args=[ast.Constant(str(name)), *_]):
            return [name] if re.search(r"environ|putenv", ast.unparse(call)) else []
        case ast.Call(func=ast.Attribute(attr="update") as call, args=[ast.Dict(keys=keys)]):
            named = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            return named if "environ" in ast.unparse(call) else []
    return []
