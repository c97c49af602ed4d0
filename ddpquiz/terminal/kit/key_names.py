"""The names of keys, read from the characters that a terminal sends. Pasted text is one key."""

import re

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_PASTE = "paste:"  # prefix of a key that is a paste; its text follows
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # control characters except tab and line feed
_SEQUENCE = re.compile(r"\x1b(?:\[\[.|\[[0-?]*[ -/]*[@-Z\\-~]|O[0-9;]*[@-~])", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[\[|\[[0-?]*[ -/]*|O[0-9;]*)?", re.DOTALL)
_FINAL = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_TILDE = {"1": "home", "3": "delete", "4": "end", "5": "pageup", "6": "pagedown", "7": "home", "8": "end"}
_NAMED = {
    "\r": "enter",
    "\n": "enter",
    " ": "space",
    "\t": "tab",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
}


def split(text: str) -> tuple[list[str], str]:
    """Split typed or pasted text into names of keys, and a rest that may be the start of a longer sequence."""
    keys, at = [], 0
    while at < len(text):
        if text.startswith(PASTE_BEGINS, at):
            start, end = at + len(PASTE_BEGINS), text.find(PASTE_ENDS, at)
            if end < 0:
                break
            keys.append(key_of_paste(text[start:end]))
            at = end + len(PASTE_ENDS)
        elif found := _SEQUENCE.match(text, at):
            keys += _of_sequence(found[0])
            at = found.end()
        elif _UNFINISHED.fullmatch(text, at):
            break
        else:
            keys.append(_of_character(text[at]))
            at += 1
    return keys, text[at:]


def pasted(key: str) -> str | None:
    """Return the text of a key that is a paste; None for any other key."""
    return key.removeprefix(_PASTE) if key.startswith(_PASTE) else None


def typed(key: str) -> str:
    """Return the text that a key adds to a line: a character, a paste without its line ends, or nothing."""
    text = pasted(key)
    if text is not None:
        return " ".join(text.split())
    return " " if key == "space" else key if len(key) == 1 else ""


def key_of_paste(text: str) -> str:
    """Return the key that stands for a pasted text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # terminals send either for a new line
    return _PASTE + _UNSEEN.sub("", _SEQUENCE.sub("", text))


def _of_sequence(sequence: str) -> list[str]:
    """Return the name of the key that sends a sequence; an empty list for keys that have no use here."""
    numbers, final = sequence[2:-1], sequence[-1]
    name = _TILDE.get(numbers.split(";")[0]) if final == "~" else _FINAL.get(final)
    return [name] if name and not numbers.startswith("[") else []


def _of_character(character: str) -> str:
    if name := _NAMED.get(character):
        return name
    return f"ctrl+{chr(ord(character) + 64).lower()}" if character < " " else character
