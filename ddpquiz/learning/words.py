"""Whether a text says a word or a phrase: whatever its ending, however it is joined, and not if it is denied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate

_SCOPE = 4  # words that a negation reaches
_SIGNS = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
        "\N{MULTIPLICATION SIGN}": "*",
        "\N{MIDDLE DOT}": "*",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    }
)
_THOUSANDS = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_JOINT = re.compile(r"(?<=[a-z0-9])[-_](?=[a-z]{2})|(?<=[a-z])[.:](?=[a-z])")  # all-reduce, no_sync, cpu:gloo
_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:'[a-z]+)?|\d+(?:\.\d+)?|[-+*/()=%^]|[.,;:!?](?=\s|$)")
_DENIES = frozenset(
    ("not", "no", "never", "without", "neither", "nor", "none", "nobody", "nothing", "cannot", "hardly")
)
_EMPHASIS = frozenset(("only", "just", "merely", "matter", "doubt"))  # "not only", "no matter": nothing is denied
_TURNS = frozenset(("but", "because", "since", "so", "while", "whereas", "and", "then", "instead"))  # ends a denial
_IRREGULAR = {
    "sent": "send", "kept": "keep", "held": "hold", "grew": "grow", "grown": "grow", "made": "make", "took": "take",
    "taken": "take", "ran": "run", "fell": "fall", "fallen": "fall", "lost": "lose", "met": "meet", "done": "do",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Token:
    stem: str
    word: str
    sentence: int
    denied: bool  # by an odd number of negations before it


class Said:
    """A text in which words are looked for."""

    def __init__(self, text: str) -> None:
        self._tokens = _read(text)
        self.denies = any(token.denied for token in self._tokens)

    def signs(self, phrase: str) -> set[bool]:
        """Return how a phrase occurs: True where it is said, False where it is denied; nothing where it is not."""
        wanted = "".join(token.stem for token in _read(phrase))
        found = set()
        for start, first in enumerate(self._tokens):
            joined = ""
            for token in self._tokens[start:]:
                joined += token.stem
                if token.sentence != first.sentence or not wanted.startswith(joined):
                    break
                if joined == wanted:
                    found.add(not first.denied)
                    break
        return found


def stem(word: str) -> str:
    """Return what the forms of a word have in common: `copies` and `copied`, `averages` and `averaging`."""
    word = _IRREGULAR.get(word, word)
    if len(word) <= 3 or not word.isalpha():
        return word
    word = re.sub(r"iz(?=(e|ed|es|ing|ation)s?$)", "is", word).replace("our", "or")
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ied", "ing", "ed", "ion", "ly"):
        rest = word.removesuffix(ending)
        if rest == word or len(rest) < 3 or not re.search("[aeiouy]", rest):
            continue
        if ending == "ied":
            word = rest + "y"
        elif ending in ("ing", "ed"):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
        elif ending == "ly" or rest[-1] in "st":
            word = rest
        break
    return word.removesuffix("e") if len(word) > 3 else word


def _read(text: str) -> list[_Token]:
    text = _THOUSANDS.sub("", text.lower().translate(_SIGNS))
    words = _TOKEN.findall(_JOINT.sub(" ", text))
    sentences = accumulate(word in ".;!?" for word in words)
    tokens: list[_Token] = []
    denials: list[int] = []  # where each negation that still reaches stands
    for at, (word, sentence) in enumerate(zip(words, sentences, strict=True)):
        following = words[at + 1] if at + 1 < len(words) else ""
        rather = (word, following) in (("instead", "of"), ("rather", "than"))
        if word in ".,;:!?" or (word in _TURNS and not rather):
            denials.clear()
        if word in ".,;:!?":
            continue
        denials = [place for place in denials if len(tokens) - place <= _SCOPE]
        tokens.append(_Token(stem(word.removesuffix("'s")), word, sentence, denied=len(denials) % 2 == 1))
        if rather or ((word in _DENIES or word.endswith("n't")) and following not in _EMPHASIS):
            denials.append(len(tokens) - 1)
    return tokens
