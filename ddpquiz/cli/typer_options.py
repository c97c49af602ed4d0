"""What typer lacks: old names of options, options as one dataclass, and the base class of errors about usage."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import fields
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export it
_OLD_NAMES = {  # of options, by command; they go on working, and no help shows them
    "study": {"--limit": "--count"},
    "search": {"--limit": "--count"},
    "diagnose": {"--ranks": "--nproc", "--view": "--step"},
    "plan": {"-n": "--gpus"},  # each GPU is a rank, and `plan` starts none
}


class CliCommand(TyperCommand):
    """A command whose options may also be given by the names that they had in earlier versions."""

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        options = {name: each for each in self.params for name in each.opts}
        for old, new in _OLD_NAMES.get(self.name or "", {}).items():
            renamed = copy(options[new])
            renamed.opts = [old]
            renamed.add_to_parser(parser, ctx)
        return parser


def with_options(options: type, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the fields of a dataclass to a command; the command receives them as one argument, `options`.

    `defaults` replace those of the dataclass.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        hints, only = get_type_hints(options, include_extras=True), inspect.Parameter.KEYWORD_ONLY
        shared = [
            inspect.Parameter(
                each.name, only, default=defaults.get(each.name, each.default), annotation=hints[each.name]
            )
            for each in fields(options)
        ]
        own = inspect.signature(command, eval_str=True).parameters.values()

        @functools.wraps(command)
        def called(**values: Any) -> None:
            chosen = {each.name: values.pop(each.name) for each in fields(options)}
            command(**values, options=options(**chosen))

        first = [each.replace(kind=only) for each in own if each.name != "options"]
        called.__signature__ = inspect.Signature([*first, *shared])  # type: ignore[attr-defined]  # what Typer reads
        called.__annotations__ = {}
        return called

    return add
