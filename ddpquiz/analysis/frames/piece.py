"""A text with its tone, the smallest part of a frame."""

from typing import Literal

Tone = Literal["", "accent", "warn", "good", "bad", "quiet", "code", "head"]
Piece = tuple[str, Tone]  # the words alone say everything; a tone only adds a colour or a weight
