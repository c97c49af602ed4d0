"""The fields of a Flight Recorder dump by their types."""

from dataclasses import dataclass
from typing import Any, Self

MAX_NUMBER = 2**63 - 1
MAX_DIMENSIONS = 64
MAX_NAME = 200  # characters; a text that many entries share may be large


@dataclass(slots=True)
class DumpFields:
    """A dictionary of a dump, or one in it. Each method returns a field; ValueError says what it should be."""

    items: dict[str, Any]

    @classmethod
    def of(cls, value: Any, what: str) -> Self:
        if type(value) is not dict:
            raise ValueError(f"{what} must be a dictionary")
        return cls(value)

    def number(self, name: str, none: int | None = None) -> int:
        """Return a whole number, or `none` if the field is None."""
        value = self.items.get(name)
        if value is None and none is not None:
            return none
        if type(value) is not int or not 0 <= value <= MAX_NUMBER:
            raise ValueError(f"`{name}` must be a whole number from 0 to 2**63 - 1")
        return value

    def flag(self, name: str) -> bool:
        value = self.items.get(name)
        if type(value) is not bool:
            raise ValueError(f"`{name}` must be true or false")
        return value

    def text(self, name: str) -> str:
        value = self.items.get(name)
        if type(value) is not str:
            raise ValueError(f"`{name}` must be a text")
        return value

    def sequence(self, name: str) -> list[Any]:
        value = self.items.get(name)
        if type(value) is not list:
            raise ValueError(f"`{name}` must be a list")
        return value

    def names(self, name: str) -> list[str]:
        value = self.sequence(name)
        if not {*map(type, value)} <= {str} or max(map(len, value), default=0) > MAX_NAME:
            raise ValueError(f"`{name}` must be a list of texts of at most {MAX_NAME} characters")
        return value

    def shapes(self, name: str) -> tuple[tuple[int, ...], ...]:
        value = self.sequence(name)
        for shape in value:
            if type(shape) is not list or len(shape) > MAX_DIMENSIONS or not {*map(type, shape)} <= {int}:
                raise ValueError(f"`{name}` must be a list of lists of whole numbers")
            if shape and (min(shape) < 0 or max(shape) > MAX_NUMBER):
                raise ValueError(f"`{name}` must have lengths from 0 to 2**63 - 1")
        return tuple(map(tuple, value))

    def tables(self, name: str) -> dict[str, "DumpFields"]:
        """Return a dictionary of dictionaries; an empty one if there is no such field."""
        values = DumpFields.of(self.items.get(name, {}), f"`{name}`").items
        return {key: DumpFields.of(value, f"each value of `{name}`") for key, value in values.items()}
