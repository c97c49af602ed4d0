"""Whether a text says a word or a phrase: whatever its ending, however it is joined, and not if it is denied."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddpquiz.learning.reading import Token, read

_CONTRAST = re.compile(r"\b(but|instead|rather|while|whereas)\b", re.IGNORECASE)  # after it the sentence says its own
_ENOUGH = 2 / 3  # of the words of one text, in one sentence of another: the other says it too


@dataclass(frozen=True, slots=True)
class Found:
    """Where a phrase occurs, as it is written there, and whether it is said there or denied."""

    said: bool
    clause: int
    sentence: int
    start: int
    quote: str


class Said:
    """A text in which words are looked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = read(text)
        self._content = [token for token in self._tokens if not token.filling]
        self.denies = any(token.denied for token in self._tokens)

    def find(self, phrase: str) -> list[Found]:
        """Return where a phrase occurs, joined in any way, or with one more word between two of its own."""
        wanted = read(phrase)
        found = []
        for start, first in enumerate(self._tokens):
            match = _as_one(self._tokens, start, wanted) or _apart(self._tokens, start, wanted)
            if match:
                said = not first.denied and not match[-1].aside
                found.append(
                    Found(said, first.clause, first.sentence, first.start, self._text[first.start : match[-1].end])
                )
        return found

    def signs(self, phrase: str) -> set[bool]:
        """Return how a phrase occurs: True where it is said, False where it is denied; nothing where it is not."""
        return {found.said for found in self.find(phrase)}

    def spoils(self, denied: Found, said: Found) -> bool:
        """Whether what a sentence denies takes back what it says then: `does not copy it, so all differ`."""
        between = self._text[denied.start : said.start]
        return denied.sentence == said.sentence and bool(between) and not _CONTRAST.search(between)

    def aside(self, clause: int) -> set[str]:
        """Return the stems of what a clause sets aside: of `model` in `the optimizer, not the model`."""
        return {token.stem for token in self._content if token.clause == clause and token.aside}

    def around(self, phrase: str) -> set[str]:
        """Return the stems of what is said in the clauses with a phrase, besides the phrase."""
        clauses = {found.clause for found in self.find(phrase)}
        stems = {token.stem for token in self._content if token.clause in clauses and not token.denied}
        return stems - {token.stem for token in read(phrase)}

    def echoes(self, other: Said) -> tuple[str, ...]:
        """Return the words of the sentence that says, or denies, most of what another text does; none if none does."""
        wanted = {(token.stem, token.denied) for token in other._content}
        for sentence in sorted({token.sentence for token in self._content}):
            same = [t for t in self._content if t.sentence == sentence and (t.stem, t.denied) in wanted]
            if len({token.stem for token in same}) >= max(3, _ENOUGH * len(wanted)):
                return tuple(dict.fromkeys(self._text[token.start : token.end] for token in same))
        return ()


def _as_one(tokens: list[Token], start: int, wanted: list[Token]) -> list[Token]:
    """Return the tokens from `start` on that are the wanted ones when blanks do not count: `all reduce`."""
    whole, joined = "".join(token.stem for token in wanted), ""
    for end in range(start, len(tokens)):
        joined += tokens[end].stem
        if tokens[end].sentence != tokens[start].sentence or not whole.startswith(joined):
            break
        if joined == whole:
            return tokens[start : end + 1]
    return []


def _apart(tokens: list[Token], start: int, wanted: list[Token]) -> list[Token]:
    """Return the tokens from `start` on that hold the wanted words with one other between: `own [part of the] data`."""
    if len(wanted) < 2 or any(token.filling or token.joined or not token.stem.isalpha() for token in wanted):
        return []
    match: list[Token] = []
    between = 0
    for token in tokens[start:]:
        if token.clause != tokens[start].clause:
            break
        if token.stem == wanted[len(match)].stem and token.denied == tokens[start].denied:
            match.append(token)
            between = 0
            if len(match) == len(wanted):
                return match
        elif not match or (between and not token.filling):
            break
        else:
            between += not token.filling
    return []
