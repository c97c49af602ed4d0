"""Does something when the script imports a module, and not before."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, call: Callable[[], object]) -> None:
    """Call a function when a module has been imported, or now if it has been."""
    if name in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _AfterImport(name, call))


class _AfterImport(MetaPathFinder):
    """Lets the other finders find a module, and calls a function when that module has been executed."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self.name, self.call = name, call

    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: object = None, /) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._call_when_executed(spec.loader)
        return spec

    def _call_when_executed(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the method of its class is found again
            execute(module)
            self.call()

        loader.exec_module = exec_module
