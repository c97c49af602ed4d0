"""The values in a printed line: `loss: 4.1`, or those of progress in training, `iter 5: loss 4.1, time 12 ms`."""

import re

from ddpquiz.events.event import Output

_LABEL = re.compile(r"([a-z][a-z0-9 _/()-]{0,39}): (.*)", re.DOTALL)
_NUMBER = r"-?(?:\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)"
# A counter stands near the beginning, or the whole line is a dictionary
_BEGINS = re.compile(
    rf".{{0,40}}?\b(?:epoch|step|iter|iteration|batch|round)\W{{0,8}}{_NUMBER}|\{{'", re.IGNORECASE | re.DOTALL
)
_PAIR = re.compile(
    rf"""['"]?([a-z][\w/-]*(?:\ [a-z][\w/-]*)?)['"]?  # one or two words
    \s{{0,2}}[:=]?\s{{0,8}}\[?({_NUMBER})(?:/\d+)?\]?
    \s?(ms|s|%|[kmgt]?i?b)?(?![\w.])""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST_READ = 500  # characters of a line that are read
# Words that are no part of the name of a number: of ranks, and prepositions
_NO_NAME = {"gpu", "rank", "after", "at", "by", "for", "from", "in", "of", "on", "than", "to", "until"}
_WORD = re.compile(r"[A-Za-z]{2,}")


def label_and_value(text: str) -> tuple[str, str] | None:
    """The two parts of a line `label: value`; None for any other line."""
    match = _LABEL.fullmatch(text)
    return (match[1], match[2]) if match else None


def values_in(line: Output) -> dict[str, str]:
    """The values by their labels; nothing for a line that has none."""
    if line.stream == "stdout" and (progress := read_progress(line.text)):
        return progress
    return {} if line.label is None else {line.label: line.value or ""}


def read_progress(text: str) -> dict[str, str]:
    """The numbers of a line of progress by their names and units, such as `time (ms)`.

    Nothing is returned for a line of another kind, such as a sentence, in which most words belong to no number.
    """
    if not _BEGINS.match(text := text[:_LONGEST_READ]):
        return {}
    pairs = [pair for pair in _PAIR.findall(text) if _NO_NAME.isdisjoint(pair[0].lower().split())]
    if len(pairs) < 2 or len(_WORD.findall(_PAIR.sub("", text))) > len(pairs):
        return {}
    return {f"{name} ({unit})" if unit else name: number.replace(",", "") for name, number, unit in pairs}
