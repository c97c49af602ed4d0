"""Parse, compare and convert units as people write them."""

import math
import re

_PREFIXES = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "m": -3, "u": -6, "n": -9}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
_PREFIX_WORDS = {
    "kilo": "k", "mega": "M", "giga": "G", "tera": "T", "peta": "P", "milli": "m", "micro": "u", "nano": "n",
}  # fmt: skip
_SYMBOLS = {
    **dict.fromkeys(("B", "byte", "Byte"), "byte"),
    **dict.fromkeys(("b", "bit"), "bit"),
    **dict.fromkeys(("s", "sec", "second"), "second"),
    **dict.fromkeys(("FLOP", "Flop", "flop"), "flop"),
}
_SMALL = ("m", "u", "n")  # prefixes that only seconds have; the others are for amounts
_TIMES = {"min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600, "d": 86400, "day": 86400}
_COUNTS = {
    **dict.fromkeys(("k", "K", "thousand"), 1e3),
    **dict.fromkeys(("M", "million", "mio", "mn"), 1e6),
    **dict.fromkeys(("B", "G", "billion", "bn"), 1e9),
    **dict.fromkeys(("T", "trillion"), 1e12),
}
_SAME = {"x": "times", "×": "times", "fold": "times", "percent": "%", "pct": "%"}  # noqa: RUF001
_SI = ("byte", "bit", "second", "flop")
_MEASURE = re.compile(
    rf"(?P<prefix>{'|'.join([*_BINARY, *_PREFIX_WORDS, *filter(None, _PREFIXES)])})?"
    rf"(?P<symbol>{'|'.join(sorted(_SYMBOLS, key=len, reverse=True))})"
    r"[sS]?(?P<rate>(?:/| per |p)s(?:ec(?:ond)?)?)?"
)

Reading = tuple[float, str]  # a unit as an amount of a plain one; the name is empty for a count such as `million`


def converted(value: float, unit: str, wanted: str) -> float | None:
    """Convert a value from one unit to another; return None if the units do not match."""
    for have, what in _readings(unit):
        for want, of_what in _readings(wanted):
            if _together(what, of_what) and (wanted or not what):
                return value * have / want
    return value if unit.lower() == wanted.lower() and not _measured(unit) else None  # such as gb


def is_slip(value: float, right: float, unit: str, tolerance: float) -> bool:
    """Return whether a number without a unit is right in another form of it: bytes for MB, a share for a percentage."""
    factors = {0.01} if _named(unit) == "%" else set[float]()
    for amount, what in _readings(unit):
        if amount != 1 or _is_si(what):
            factors |= {amount, *(10.0**power for power in (-12, -9, -6, -3, 3, 6, 9, 12))} - {1.0}
    return bool(right) and any(math.isclose(value, right * each, rel_tol=max(tolerance, 1e-5)) for each in factors)


def _readings(unit: str) -> list[Reading]:
    """Return the possible meanings of a unit; `B` may be bytes or billions."""
    unit = " ".join(unit.replace("µ", "u").replace("μ", "u").strip(" .").split())  # Unicode has two signs for micro
    first, _, rest = unit.partition(" ")
    found: list[Reading] = [measured] if (measured := _measured(unit)) else []
    if count := _COUNTS.get(first) or _COUNTS.get(first.lower().rstrip("s")):
        found.append((count, _named(rest)))
    return found or [(1.0, _named(unit))]


def _measured(unit: str) -> Reading | None:
    """Parse a unit of bytes, bits, seconds or operations, or one of these per second."""
    if seconds := _TIMES.get(unit.lower().removesuffix("s")):
        return float(seconds), "second"
    found = _MEASURE.fullmatch(unit) or (_MEASURE.fullmatch(unit.lower()) if len(unit) > 4 else None)
    if not found:
        return None
    what, prefix = _SYMBOLS[found["symbol"]], _PREFIX_WORDS.get(found["prefix"] or "", found["prefix"] or "")
    if prefix and (prefix in _SMALL) != (what == "second"):
        return None
    rate = "/second" if found["rate"] else ""
    return (2.0 ** _BINARY[prefix] if prefix in _BINARY else 10.0 ** _PREFIXES[prefix]), what + rate


def _named(unit: str) -> str:
    """Return the singular of a name, since `step` and `steps` are one unit."""
    words = (_SAME.get(word, word) for word in unit.lower().replace("-", " ").replace("per cent", "%").split())
    return " ".join(word.rstrip("es") or word for word in words)


def _is_si(what: str) -> bool:
    return what.removesuffix("/second") in _SI


def _together(what: str, of_what: str) -> bool:
    """Return whether two names mean the same; outside the SI, a name matches the beginning of another."""
    if _is_si(what) or _is_si(of_what):
        return what == of_what
    return what.startswith(of_what) or of_what.startswith(what)
