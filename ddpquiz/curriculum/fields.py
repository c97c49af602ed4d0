"""Typed access to one YAML mapping: each value is read by name, and a wrong value becomes a complaint."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from typing import TypeVar

from yaml import MappingNode, Node, ScalarNode, SequenceNode

from ddpquiz.curriculum.yaml_file import HIDDEN, PLAIN_TAGS, YamlFile

_Choice = TypeVar("_Choice", bound="StrEnum")
_Record = TypeVar("_Record")
_KINDS: dict[type, str] = {ScalarNode: "text", MappingNode: "a mapping", SequenceNode: "a list"}
_TAGS = set(PLAIN_TAGS.values())
_MOST_ENTRIES = 200  # entries are compared pair by pair
_MOST_UNKNOWN = 20  # each unknown key is compared with every known one
_MOST_KNOWN = 1_000  # names to search for the most similar one
_WHOLE = re.compile(r"\d{1,9}")
ID = re.compile(r"[a-z0-9][a-z0-9-]*")


class Fields:
    """One mapping of a file. Read each key that it may have, then call `close`."""

    def __init__(self, page: YamlFile, node: Node, what: str) -> None:
        self.page = page
        self.node = node
        self._fields: dict[str, tuple[Node, Node]] = {}
        self._asked: dict[str, bool] = {}  # True if the key is required
        self._closed = False
        if not isinstance(node, MappingNode):
            page.complain(node, f"{what}: expected a mapping, got {_KINDS[type(node)]}")
            return
        _refuse_tag(page, node)
        for key, value in node.value:
            name = key.value if isinstance(key, ScalarNode) else ""
            if not name:
                page.complain(key, f"{what}: a key must be text")
            elif name in self._fields:
                first = self._fields[name][0].start_mark.line + 1
                page.complain(key, f"repeated key `{name}`; it was first used in line {first}")
            else:
                self._fields[name] = (key, value)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def keys(self) -> Iterable[str]:
        return self._fields.keys()

    def at(self, name: str) -> Node:
        """Return the node to complain about: that of a value, or that of the mapping if the key is missing."""
        return self._fields[name][1] if name in self._fields else self.node

    def children(self, name: str) -> list[Node]:
        """Return the nodes of a list that was already read, without complaining again."""
        node = self.at(name)
        return list(node.value) if name in self and isinstance(node, SequenceNode) else []

    def complain(self, name: str, text: str) -> None:
        self.page.complain(self.at(name), f"`{name}`: {text}")

    def find(self, name: str, *, optional: bool = False) -> Node | None:
        """Return the node of a value of any type, or None if the key is missing."""
        self._asked[name] = not optional
        pair = self._fields.get(name)
        return pair[1] if pair else None

    def text(self, name: str, *, optional: bool = False) -> str:
        """Return a text without surrounding spaces, or "" if the key is missing."""
        node = self.find(name, optional=optional)
        return "" if node is None else scalar(self.page, node, name).strip()

    def code(self, name: str, *, optional: bool = False) -> str:
        """Return a text in which line ends and indentation matter."""
        node = self.find(name, optional=optional)
        if node is None:
            return ""
        if isinstance(node, ScalarNode) and node.style == ">":
            self.complain(name, "`>` would join its lines; write `|`")
        return scalar(self.page, node, name).rstrip()

    def id(self, name: str = "id") -> str:
        """Return a name that the log can refer to permanently."""
        value = self.text(name)
        if value and not ID.fullmatch(value):
            self.complain(name, f"`{value}` is not a name; use a-z, 0-9 and -, and start with a letter or digit")
        return value

    def one_of(self, name: str, choices: type[_Choice], default: _Choice | None = None) -> _Choice:
        """Return one of the values of an enumeration."""
        value = self.text(name, optional=default is not None)
        fallback = default or next(iter(choices))
        try:
            return choices(value) if value else fallback
        except ValueError:
            known = [str(choice) for choice in choices]
            self.complain(name, f"`{value}` is not one of {', '.join(known)}{did_you_mean(value, known)}")
            return fallback

    def fits(self, name: str, choices: type[StrEnum]) -> bool:
        """Return True if a value is missing or in an enumeration. Never complains."""
        node = self.at(name)
        return name not in self or (isinstance(node, ScalarNode) and node.value.strip() in list(choices))

    def whole(self, name: str, least: int, most: int, *, optional: bool = False) -> int | None:
        """Return a whole number between two bounds."""
        value = self.text(name, optional=optional)
        if not value:
            return None
        if not _WHOLE.fullmatch(value) or not least <= int(value) <= most:
            self.complain(name, f"expected a whole number from {least} to {most}, got `{value}`")
            return None
        return int(value)

    def flag(self, name: str) -> bool:
        """Return True if a value is `true`, False if it is `false` or missing."""
        value = self.text(name, optional=True)
        if value not in ("", "true", "false"):
            self.complain(name, f"expected true or false, got `{value}`")
        return value not in ("", "false")

    def entries(self, name: str, *, optional: bool = False, empty: bool = False) -> list[Node]:
        """Return the nodes of a list. `optional`: the key may be missing. `empty`: the list may be empty."""
        node = self.find(name, optional=optional)
        if node is None:
            return []
        if not isinstance(node, SequenceNode):
            self.complain(name, f"expected a list, got {_KINDS[type(node)]}")
            return []
        _refuse_tag(self.page, node)
        if not node.value and not empty:
            self.complain(name, "the list is empty")
        if len(node.value) > _MOST_ENTRIES:
            self.complain(name, f"{len(node.value):,} entries; {_MOST_ENTRIES} at most")
            node.value = []
        return list(node.value)

    def texts(self, name: str, *, optional: bool = False, empty: bool = False) -> tuple[str, ...]:
        nodes = self.entries(name, optional=optional, empty=empty)
        return tuple([scalar(self.page, node, name).strip() for node in nodes])

    def sentences(self, name: str) -> tuple[str, ...]:
        """Read a list of sentences; complain about one in [ ] that a comma has cut."""
        found = self.texts(name)
        cut = "in [ ], a text with a comma must be quoted; this one begins with a small letter"
        for before, text, node in zip(found, found[1:], self.children(name)[1:], strict=False):
            if getattr(self.at(name), "flow_style", False) and text[:1].islower() and before[-1:].isalnum():
                self.page.complain(node, f"`{name}`: {cut}")
        return found

    def records(
        self, name: str, what: str, read: Callable[[Fields], _Record], *, optional: bool = False
    ) -> tuple[_Record, ...]:
        """Read each mapping in a list with `read`, and close it; complaints call it `what`."""
        found = []
        for node in self.entries(name, optional=optional):
            record = Fields(self.page, node, what)
            found.append(read(record))
            record.close()
        return tuple(found)

    def close(self, elsewhere: Iterable[str] = (), reason: str = "") -> None:
        """Complain about unknown and missing keys, once.

        A key in `elsewhere` is known but does not belong here, for this `reason`; without a reason it is accepted.
        """
        if self._closed:
            return
        self._closed = True
        missing = [name for name, needed in self._asked.items() if needed and name not in self._fields]
        unknown = []
        for name, (key, _) in self._fields.items():
            if name not in self._asked and name not in elsewhere:
                unknown.append((name, key))
            elif name not in self._asked and reason:
                self.page.complain(key, f"`{name}` does not belong here: {reason}")
        for name, key in unknown[:_MOST_UNKNOWN]:
            self.page.complain(key, f"unknown key `{name}`{_advice(name, self._asked)}")
            meant = difflib.get_close_matches(name, missing, 1)
            missing = [name for name in missing if name not in meant]
        if len(unknown) > _MOST_UNKNOWN:
            self.page.complain(unknown[_MOST_UNKNOWN][1], f"{len(unknown) - _MOST_UNKNOWN:,} more unknown keys")
        if isinstance(self.node, MappingNode):
            for name in missing:
                self.page.complain(self.node, f"missing key `{name}`")


def scalar(page: YamlFile, node: Node, name: str) -> str:
    """Return the text of a node. Complains if it is empty."""
    if not isinstance(node, ScalarNode):
        page.complain(node, f"`{name}`: expected text, got {_KINDS[type(node)]}; quote it if it is text")
        return ""
    _refuse_tag(page, node)
    value: str = node.value
    if node.style == '"' and (hidden := HIDDEN.search(value)):
        page.complain(node, f"`{name}`: a control character (U+{ord(hidden[0]):04X}); remove it")
    if not value or value.isspace():
        page.complain(node, f"`{name}` is empty")
    return value


def peek(node: Node, name: str) -> Node:
    """Return the value of a key in a mapping that was already read, or the mapping if the key is missing."""
    pairs: list[tuple[Node, Node]] = node.value if isinstance(node, MappingNode) else []
    return next((value for key, value in pairs if key.value == name), node)


def _advice(key: str, known: Iterable[str]) -> str:
    return "; a text in { } with a comma must be quoted" if " " in key.strip() else did_you_mean(key, known)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest known word, or ""."""
    meant = nearest(word, known)
    return f"; did you mean `{meant}`?" if meant else ""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known word most similar to this one, else one that contains it, else "".

    A name of a pack, such as `pack/ring`, is meant by `ring` if no other one is `ring`.
    """
    known = list(islice(known, _MOST_KNOWN))
    alike = (
        [name for name in known if name.rpartition("/")[2] == word]
        or difflib.get_close_matches(word, known, 1, cutoff)
        or [name for name in known if word in name.split("-")]
    )
    return next(iter(alike), "")


def _refuse_tag(page: YamlFile, node: Node) -> None:
    if node.tag not in _TAGS:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        page.complain(node, f"the tag `{tag}` is not allowed; quote text that begins with !")
