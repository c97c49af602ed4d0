"""What a user can mend: one family of errors, printed in one place, without a traceback."""

from __future__ import annotations

from dataclasses import dataclass


class UserError(Exception):
    """Something that the user can mend; its text is one sentence that says what is wrong and what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Complaint:
    """What is wrong at one place of a content file, and what would be right; line and column count from 1."""

    path: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.text}"


class ContentError(UserError):
    """Content that does not fit; it holds every complaint there is, one a line in its text."""

    def __init__(self, complaints: tuple[Complaint, ...]) -> None:
        self.complaints = complaints
        super().__init__("\n".join(map(str, complaints)))
