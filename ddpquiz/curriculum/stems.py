"""Stems: one text for all forms of a word, and for its synonyms in this field."""

import re

_IRREGULAR = {
    "sent": "send", "kept": "keep", "held": "hold", "grew": "grow", "grown": "grow", "made": "make", "took": "take",
    "taken": "take", "ran": "run", "fell": "fall", "fallen": "fall", "lost": "lose", "met": "meet", "done": "do",
    "died": "die", "dies": "die", "hung": "hang",
}  # fmt: skip
_SYNONYMS = (  # the words of a line mean the same in this field
    "replica copy replicate clone",
    "gradient grad",
    "parameter param",
    "synchronise sync synchronisation",
    "whole full entire",
    "identical same",
    "machine node host",
    "shard partition",
    "piece chunk slice",
    "send transfer transmit",
    "wait stall",
    "stale old outdated",
    "diverge drift",
    "straggler slowest",
    "crash die",
    "hang stuck deadlock",
    "memory vram",
)


def stem(word: str) -> str:
    """Return the text that the forms of a word share, such as `copies` and `copied`, or `averages` and `averaging`."""
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


_SAME = {stem(word): stem(line.split()[0]) for line in _SYNONYMS for word in line.split()}


def meaning(word: str) -> str:
    """Return the stem of a word or of its first synonym; for a number, its digits."""
    bare = stem(word.removesuffix("'s").replace(",", "").replace("_", ""))
    return _SAME.get(bare, bare)


def beginnings(word: str) -> tuple[str, ...]:
    """Return the beginnings of all words that mean the same as this one."""
    means = meaning(word)
    same = {stem(word), *(each for each in (*_SAME, *_IRREGULAR) if meaning(each) == means)}
    return tuple(sorted({each.removesuffix("y") if len(each) > 3 else each for each in same}))
