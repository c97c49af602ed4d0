"""What typer lacks: options of a command as one dataclass, and the base class of its errors about usage."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints

import typer

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export it


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
