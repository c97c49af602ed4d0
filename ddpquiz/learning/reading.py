"""A text as words that can be compared: each with its clause, and with whether it is denied there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ddpquiz.curriculum.stems import meaning

_SCOPE = 3  # words with a meaning of their own that a negation reaches
_SUBJECT = 4  # words before "is not needed" that may name what is not needed
_SIGNS = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
        "\N{MULTIPLICATION SIGN}": "*",
        "\N{MIDDLE DOT}": "*",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}": "i",  # the only letter that gets longer in lower case
    }
)
_JOINT = re.compile(r"(?<=[a-z0-9])[-_](?=[a-z]{2})|(?<=[a-z])[.:](?=[a-z])")  # all-reduce, no_sync, cpu:gloo
_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:'[a-z]+)?|\d+(?:[,_]\d{3}(?!\d))*(?:\.\d+)?|[-+*/()=%^]|[.,;:!?](?=\s|$)")
_MARKS = frozenset(".,;:!?")
_VERBAL = frozenset(("not", "never", "cannot", "hardly"))
_DENIES = _VERBAL | frozenset(("no", "without", "neither", "nor", "none", "nobody", "nothing"))
_CONTRACTED = re.compile(r".*n't|(?:do|does|did|is|are|was|were|ca|wo|has|have|need|must|should|would|could)nt")
_EMPHASIS = {  # "not only", "no matter": nothing is denied
    "not": frozenset(("only", "just", "merely", "simply")),
    "no": frozenset(("matter", "doubt", "wonder")),
}
_IF = frozenset(("if", "unless"))  # "if you do not call it": what does not happen there is said to matter
_TURNS = frozenset((  # where a denial ends
    "but", "because", "since", "so", "while", "whereas", "and", "then", "instead", "though", "although", "before",
    "after", "until", "when", "where", *_IF,
))  # fmt: skip
_FINITE = frozenset(("is", "are", "was", "were", "must", "can", "will", "should", "would", "may", "might"))
_HELPING = _FINITE | frozenset(
    ("be", "been", "do", "does", "did", "has", "have", "had", "could", "shall", "of", "make", "makes", "play", "plays")
)
_DETERMINERS = frozenset(("a", "an", "the", "this", "that", "these", "those", "each", "every", "any", "all", "no"))
_BOUNDS = _DETERMINERS | _TURNS | _MARKS  # where a subject begins
_FILLING = frozenset((  # words that mean little by themselves
    "it", "its", "they", "their", "them", "there", "he", "she", "you", "your", "we", "our", "i", "my", "to", "in", "on",
    "at", "by", "for", "from", "with", "into", "as", "being", "am", "also", "only", "just", "even", "some", "such",
    "so", "very", "much", "more", "most", "than", "then", "too", "ever", "always", "or", "and", "if", "which", "who",
    "what", *_HELPING, *_DETERMINERS,
))  # fmt: skip
_VOID = frozenset(("needed", "required", "necessary", "used", "called", "exist", "happen", "occur"))  # after "not"
_NULL = frozenset(("effect", "use", "difference", "role", "point"))  # after "has no"
_NEEDLESS = frozenset(("unnecessary", "needless", "useless", "pointless", "superfluous", "redundant", "irrelevant"))


class _Word(NamedTuple):
    """A word as it was read: where it stands, and whether it is one name with the word before, as in `set_epoch`."""

    word: str
    start: int
    end: int
    joined: bool


class _Denial(NamedTuple):
    """A negation: of a verb, or of something for which something else is said in its place, or of anything."""

    verbal: bool
    aside: bool
    seen: int = 0  # words with a meaning of their own since


@dataclass(frozen=True, slots=True)
class Token:
    """A word: what stands for it, where it is, and how it is meant there."""

    stem: str
    start: int
    end: int
    sentence: int
    clause: int
    joined: bool  # to the token before
    filling: bool
    denied: bool  # by an odd number of negations
    aside: bool  # by ", not ..." or "instead of ...": something else is said in its place


def _words(text: str) -> list[_Word]:
    text = text.translate(_SIGNS).lower()
    joints = {joint.start() for joint in _JOINT.finditer(text)}
    return [
        _Word(found[0], found.start(), found.end(), joined=found.start() - 1 in joints)
        for found in _TOKEN.finditer(_JOINT.sub(" ", text))
    ]


def read(text: str) -> list[Token]:
    """Read a text."""
    words = _words(text)
    void = _void(words)
    tokens: list[Token] = []
    denials: list[_Denial] = []  # those that still reach
    sentence = clause = 0
    condition = False
    for at, (word, start, end, joined) in enumerate(words):
        if _turns(words, at):
            denials.clear()
            condition = word in _IF
            sentence += word in ".;!?"
            clause += word != "," or _next(words, at) not in ("not", "never", "instead", "rather")
        if word in _MARKS:
            continue
        opens = not tokens or tokens[-1].sentence != sentence
        filling = word in _FILLING or not word[0].isalnum()
        if not filling and not joined:
            denials = [denial._replace(seen=denial.seen + 1) for denial in denials if denial.seen < _SCOPE]
        if word in _FINITE:  # "what does not fit must be split"
            denials = [denial for denial in denials if not (denial.seen and denial.verbal)]
        if joined and tokens:
            denied, aside = tokens[-1].denied, tokens[-1].aside
        else:
            denied = (len(denials) + (at in void and not condition)) % 2 == 1
            aside = denied and any(denial.aside for denial in denials)
        new = _denial(words, at)
        tokens.append(Token(meaning(word), start, end, sentence, clause, joined, bool(filling or new), denied, aside))
        if new and not condition and not (word == "without" and opens):  # "Without it, each would ..."
            if word == "nor":
                denials.clear()  # it goes on with what `neither` began
            denials.append(new)
    return tokens


def _next(words: list[_Word], at: int) -> str:
    return words[at + 1].word if at + 1 < len(words) else ""


def _joins(words: list[_Word], at: int) -> bool:
    return at + 1 < len(words) and words[at + 1].joined


def _rather(words: list[_Word], at: int) -> bool:
    return (words[at].word, _next(words, at)) in (("instead", "of"), ("rather", "than"))


def _turns(words: list[_Word], at: int) -> bool:
    """Whether a clause ends here, and with it what a denial reaches."""
    word, start, _, joined = words[at]
    aside = word == "(" and at > 0 and words[at - 1].end < start  # a remark, and no call
    return word in _MARKS or aside or (word in _TURNS and not joined and not _rather(words, at))


def _denial(words: list[_Word], at: int) -> _Denial | None:
    """Return the denial that begins with a word; the `no` in `no_sync` is none."""
    word = words[at].word
    if _rather(words, at):
        return _Denial(verbal=False, aside=True)
    if words[at].joined or _joins(words, at) or not _denies(word, _next(words, at)):
        return None
    after_comma = at > 0 and words[at - 1].word == ","
    verbal = word in _VERBAL or bool(_CONTRACTED.fullmatch(word))
    return _Denial(verbal, aside=after_comma and word in ("not", "never"))


def _denies(word: str, following: str) -> bool:
    return (word in _DENIES or bool(_CONTRACTED.fullmatch(word))) and following not in _EMPHASIS.get(word, ())


def _void(words: list[_Word]) -> set[int]:
    """Return the places of what is said to be of no use: of `set_epoch` in `set_epoch does nothing`."""
    found: set[int] = set()
    for at, (word, *_) in enumerate(words):
        before = words[at - 1].word if at else ""
        after = [each.word for each in words[at + 1 : at + 4] if each.word not in _FILLING][:1]
        if (
            (_denies(word, "") and word not in ("no", "without") and _VOID.intersection(after))
            or (word == "nothing" and before in ("do", "does", "did"))
            or (word == "no" and before in _HELPING and _NULL.intersection(after))
            or (word in _NEEDLESS and before in _HELPING)
        ):
            found |= _subject(words, at - 1)
    return found


def _subject(words: list[_Word], at: int) -> set[int]:
    """Return the places of the words that a verb, which ends at `at`, is said of."""
    places: set[int] = set()
    while at >= 0 and words[at].word in _HELPING:
        at -= 1
    while at >= 0 and len(places) < _SUBJECT and words[at].word not in _BOUNDS:
        places.add(at)
        at -= 1
    return places
