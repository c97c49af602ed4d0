"""The errors that a user can fix. They are printed in one place, without a traceback."""

from typing import NamedTuple

from ddpquiz.safe_text import one_line

FAULT = 70  # the exit status of a rank in which ddpquiz itself failed, after a traceback


class UserError(Exception):
    """Something that the user can fix. Its text says in a sentence or two what is wrong and what to do, in one line."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class Complaint(NamedTuple):
    """What is wrong at one place of a content file, and what would be right. Line and column start at 1."""

    path: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.text}"


class ContentError(UserError):
    """Invalid content. Its text has every complaint, one per line."""

    def __init__(self, complaints: tuple[Complaint, ...]) -> None:
        self.complaints = complaints
        super().__init__(complaints)

    def __str__(self) -> str:
        return "\n".join(map(str, self.complaints))
