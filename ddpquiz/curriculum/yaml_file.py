"""One content file: its YAML nodes, the Python in it, and complaints about both, each with line and column.

A value that does not fit becomes a complaint, never an exception, so that all complaints come at once.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from ddpquiz.errors import Complaint

LARGEST = 1_000_000  # bytes
_DEEPEST = 30  # a concept needs eight
_SHALLOW = 4_000  # fewer brackets and dashes than this cannot be nested deep enough to exhaust the C stack
_MOST_OF_A_KIND = 20
_LONGEST_COMPLAINT = 400
_ANCHOR = re.compile(r"&[\w-]")
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")  # would control a terminal
_UNWANTED = re.compile(rf"\t+|(?!\r\n){HIDDEN.pattern}")
_COMMON = bytes(range(0x20, 0x7F)) + b"\n"

_ADVICE = {
    "mapping values are not allowed in this context": "text that contains `: ` must be quoted, or written under `|`;"
    " or this line is not indented as those around it",
    "found character that cannot start any token": "text that begins with one of ` @ % must be quoted",
    "found unexpected end of stream": "a quotation mark or a bracket here is never closed",
    "did not find expected ',' or '}'": "this `{` is not closed, or a text in it contains , or } and must be quoted",
    "did not find expected ',' or ']'": "this `[` is not closed, or a text in it contains , or ] and must be quoted",
    "did not find expected key": "the indentation is wrong here, or text follows a closing quotation mark",
    "did not find expected '-' indicator": "the indentation is wrong here, or a `-` is missing",
    "did not find expected alphabetic or numeric character": "text that begins with * or & must be quoted",
    "but found another document": "a file holds one document; remove the line `---`",
}

_PLAIN_TAGS: dict[type[yaml.Node], str] = {
    yaml.ScalarNode: "tag:yaml.org,2002:str",
    yaml.MappingNode: "tag:yaml.org,2002:map",
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
}


class _Nodes(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader without types: `no`, 1.0 and 2024-01-01 stay text."""

    def resolve(self, kind: type[yaml.Node], _value: str, _implicit: tuple[bool, bool]) -> str:
        return _PLAIN_TAGS[kind]

    def descend_resolver(self, _parent: yaml.Node, _index: object) -> None: ...

    def ascend_resolver(self) -> None: ...


class Mention(NamedTuple):
    """A place in a file that names something outside it: a concept, source, demo, argument or label of it, picture."""

    kind: str
    value: str
    node: yaml.Node
    of: str = ""


class YamlFile:
    """A content file that is being read. `root` is None if it cannot be parsed; `complaints` says why."""

    def __init__(self, name: str, data: bytes | None, *, thorough: bool = False) -> None:
        self.name = name
        self.thorough = thorough
        self.text = ""
        self.root: yaml.Node | None = None
        self.complaints: list[Complaint] = []
        self.mentions: list[Mention] = []
        if data is not None and self._decode(data):
            self._compose()

    @classmethod
    def open(cls, path: Path, *, thorough: bool = False) -> YamlFile:
        """Read a file. If that fails, the result has one complaint."""
        try:
            data = _bytes(path)
        except (OSError, ValueError) as problem:
            page = cls(shown(path), None, thorough=thorough)
            page.complain_at(1, 1, _why_not(problem))
            return page
        return cls(shown(path), data, thorough=thorough)

    def complain(self, node: yaml.Node, text: str) -> None:
        self.complain_at(node.start_mark.line + 1, node.start_mark.column + 1, text)

    def complain_at(self, line: int, column: int, text: str) -> None:
        """Complain about a line and column, which start at 1."""
        text = HIDDEN.sub("\ufffd", text.replace("\n", " "))
        self.complaints.append(Complaint(self.name, line, column, text[:_LONGEST_COMPLAINT]))

    def mention(self, kind: str, value: str, node: yaml.Node, of: str = "") -> None:
        """Record that this file names something outside it."""
        self.mentions.append(Mention(kind, value, node, of))

    def _decode(self, data: bytes) -> bool:
        if len(data) > LARGEST:
            self.complain_at(1, 1, f"larger than {LARGEST:,} bytes; split it")
            return False
        data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            self.text = data.decode("utf-8")
        except UnicodeDecodeError as problem:
            at = problem.start
            line, column = data.count(b"\n", 0, at) + 1, at - data.rfind(b"\n", 0, at)
            wrong = f"byte {at} is 0x{data[at]:02x}, which is not UTF-8; save the file as UTF-8"
            self.complain_at(line, column, wrong)
            return False
        rare = data.translate(None, _COMMON).decode("utf-8")  # searching the whole text takes 50 times as long
        if "\t" in rare or HIDDEN.search(rare):
            self._complain_of_characters()
        return not self.complaints

    def _complain_of_characters(self) -> None:
        for found in islice(_UNWANTED.finditer(self.text), _MOST_OF_A_KIND):
            at = found.start()
            line, column = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
            match found[0][0]:
                case "\0":
                    self.complain_at(line, column, "a NUL byte; this is not a text file")
                    return
                case "\t":
                    self.complain_at(line, column, 'a tab; write spaces, or "\\t" in a quoted text')
                case character:
                    self.complain_at(line, column, f"a control character (U+{ord(character):04X}); remove it")

    def _compose(self) -> None:
        try:
            if _ANCHOR.search(self.text) or sum(map(self.text.count, "[{?-")) > _SHALLOW:
                self._refuse_depth_and_anchors()
            if not self.complaints:
                self.root = yaml.compose(self.text, _Nodes)
        except yaml.MarkedYAMLError as problem:
            self._complain_of_yaml(problem)
        except (yaml.YAMLError, RecursionError) as problem:
            self.complain_at(1, 1, f"not valid YAML: {problem}".splitlines()[0])
        else:
            if self.root is None and not self.complaints:
                self.complain_at(1, 1, "the file is empty")

    def _refuse_depth_and_anchors(self) -> None:
        depth = 0
        for event in yaml.parse(self.text, _Nodes):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            mark: Any = event.start_mark
            line, column = mark.line + 1, mark.column + 1
            if depth > _DEEPEST:
                self.complain_at(line, column, f"nested more than {_DEEPEST} deep")
                return
            if anchor := getattr(event, "anchor", None):
                self.complain_at(line, column, f"`&{anchor}` and `*{anchor}` are not allowed; write the value out")

    def _complain_of_yaml(self, problem: yaml.MarkedYAMLError) -> None:
        what = problem.problem or problem.context or "unknown error"
        opened = what.startswith(("found unexpected end", "did not find expected ','"))
        mark = (opened and problem.context_mark) or problem.problem_mark or problem.context_mark
        advice = "text that begins with * must be quoted" if "undefined alias" in what else _ADVICE.get(what, "")
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        self.complain_at(line, column, f"not valid YAML: {what}" + (f"; {advice}" if advice else ""))


def shown(path: Path) -> str:
    """A path as a user would write it: relative if it is below the working directory."""
    with contextlib.suppress(ValueError, OSError):
        path = path.absolute().relative_to(Path.cwd())
    return HIDDEN.sub("\ufffd", str(path).replace("\n", " "))


def _bytes(path: Path) -> bytes:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError
    if not stat.S_ISREG(mode):
        raise OSError("not a regular file")
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def _why_not(problem: OSError | ValueError) -> str:
    match problem:
        case FileNotFoundError():
            return "there is no such file or folder"
        case IsADirectoryError():
            return "this is a folder, not a file"
        case PermissionError():
            return "you have no permission to read this file"
        case OSError(errno=int(number)):
            return f"cannot be read: {os.strerror(number).lower()}"
        case _:
            return f"cannot be read: {problem}"


_Choice = TypeVar("_Choice", bound="StrEnum")
_Record = TypeVar("_Record")
_KINDS: dict[type, str] = {ScalarNode: "text", MappingNode: "a mapping", SequenceNode: "a list"}
_TAGS = set(_PLAIN_TAGS.values())
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
        """The node to complain about: that of a value, or that of the mapping if the key is missing."""
        return self._fields[name][1] if name in self._fields else self.node

    def children(self, name: str) -> list[Node]:
        """The nodes of a list that was already read, without complaining again."""
        node = self.at(name)
        return list(node.value) if name in self and isinstance(node, SequenceNode) else []

    def complain(self, name: str, text: str) -> None:
        self.page.complain(self.at(name), f"`{name}`: {text}")

    def find(self, name: str, *, optional: bool = False) -> Node | None:
        """The node of a value of any type, or None if the key is missing."""
        self._asked[name] = not optional
        pair = self._fields.get(name)
        return pair[1] if pair else None

    def text(self, name: str, *, optional: bool = False) -> str:
        """A text without surrounding spaces, or "" if the key is missing."""
        node = self.find(name, optional=optional)
        return "" if node is None else scalar(self.page, node, name).strip()

    def code(self, name: str, *, optional: bool = False) -> str:
        """A text in which line ends and indentation matter."""
        node = self.find(name, optional=optional)
        if node is None:
            return ""
        if isinstance(node, ScalarNode) and node.style == ">":
            self.complain(name, "`>` would join its lines; write `|`")
        return scalar(self.page, node, name).rstrip()

    def id(self, name: str = "id") -> str:
        """A name that the log can refer to permanently."""
        value = self.text(name)
        if value and not ID.fullmatch(value):
            self.complain(name, f"`{value}` is not a name; use a-z, 0-9 and -, and start with a letter or digit")
        return value

    def one_of(self, name: str, choices: type[_Choice], default: _Choice | None = None) -> _Choice:
        """One of the values of an enumeration."""
        value = self.text(name, optional=default is not None)
        fallback = default or next(iter(choices))
        try:
            return choices(value) if value else fallback
        except ValueError:
            known = [str(choice) for choice in choices]
            self.complain(name, f"`{value}` is not one of {', '.join(known)}{did_you_mean(value, known)}")
            return fallback

    def fits(self, name: str, choices: type[StrEnum]) -> bool:
        """True if a value is missing or in an enumeration. Never complains."""
        node = self.at(name)
        return name not in self or (isinstance(node, ScalarNode) and node.value.strip() in list(choices))

    def whole(self, name: str, least: int, most: int, *, optional: bool = False) -> int | None:
        """A whole number between two bounds."""
        value = self.text(name, optional=optional)
        if not value:
            return None
        if not _WHOLE.fullmatch(value) or not least <= int(value) <= most:
            self.complain(name, f"expected a whole number from {least} to {most}, got `{value}`")
            return None
        return int(value)

    def flag(self, name: str) -> bool:
        """True if a value is `true`, False if it is `false` or missing."""
        value = self.text(name, optional=True)
        if value not in ("", "true", "false"):
            self.complain(name, f"expected true or false, got `{value}`")
        return value not in ("", "false")

    def entries(
        self, name: str, *, optional: bool = False, empty: bool = False, most: int = _MOST_ENTRIES
    ) -> list[Node]:
        """The nodes of a list. `optional`: the key may be missing. `empty`: the list may be empty."""
        node = self.find(name, optional=optional)
        if node is None:
            return []
        if not isinstance(node, SequenceNode):
            self.complain(name, f"expected a list, got {_KINDS[type(node)]}")
            return []
        _refuse_tag(self.page, node)
        if not node.value and not empty:
            self.complain(name, "the list is empty")
        if len(node.value) > most:
            self.complain(name, f"{len(node.value):,} entries; {most} at most")
            node.value = []
        return list(node.value)

    def texts(self, name: str, *, optional: bool = False, empty: bool = False) -> tuple[str, ...]:
        nodes = self.entries(name, optional=optional, empty=empty)
        return tuple([scalar(self.page, node, name).strip() for node in nodes])

    def sentences(self, name: str) -> tuple[str, ...]:
        """Read a list of sentences; complain about one in [ ] that a comma has cut."""
        sentences = self.texts(name)
        cut = "in [ ], a text with a comma must be quoted; this one begins with a small letter"
        for before, text, node in zip(sentences, sentences[1:], self.children(name)[1:], strict=False):
            if getattr(self.at(name), "flow_style", False) and text[:1].islower() and before[-1:].isalnum():
                self.page.complain(node, f"`{name}`: {cut}")
        return sentences

    def records(
        self,
        name: str,
        what: str,
        read: Callable[[Fields], _Record],
        *,
        optional: bool = False,
        most: int = _MOST_ENTRIES,
    ) -> tuple[_Record, ...]:
        """Read each mapping in a list with `read`, and close it; complaints call it `what`."""
        results = []
        for node in self.entries(name, optional=optional, most=most):
            record = Fields(self.page, node, what)
            results.append(read(record))
            record.close()
        return tuple(results)

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
    """The text of a node. Complains if it is empty."""
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
    """The value of a key in a mapping that was already read, or the mapping if the key is missing."""
    pairs: list[tuple[Node, Node]] = node.value if isinstance(node, MappingNode) else []
    return next((value for key, value in pairs if key.value == name), node)


def _advice(key: str, known: Iterable[str]) -> str:
    return "; a text in { } with a comma must be quoted" if " " in key.strip() else did_you_mean(key, known)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that suggests the nearest known word, or ""."""
    meant = nearest(word, known)
    return f"; did you mean `{meant}`?" if meant else ""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word most similar to this one, else one that contains it, else "".

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


def check_snippet(page: YamlFile, node: Node, name: str, code: str) -> None:
    """Complain if `code` at `node` is not valid Python. Only a thorough reading checks this, because it takes time."""
    if not page.thorough or not code or getattr(node, "style", None) == ">":
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as problem:
        line, column = _place(page, node, problem)
        page.complain_at(line, column, f"`{name}` is not valid Python: {problem.msg}")
    except (ValueError, RecursionError, MemoryError) as problem:
        page.complain(node, f"`{name}` is not valid Python: {problem or 'too deeply nested'}")


def _place(page: YamlFile, node: Node, problem: SyntaxError) -> tuple[int, int]:
    mark = node.start_mark
    if getattr(node, "style", None) != "|" or not problem.lineno:
        return mark.line + 1, mark.column + 1
    lines = page.text.split("\n")
    # Lines count from 0, and a block starts on the line after its `|`.
    number = min(mark.line + problem.lineno, node.end_mark.line, len(lines) - 1)
    inside = (problem.text or "").rstrip("\n")
    indent = max(len(lines[number].rstrip()) - len(inside.rstrip()), 0)
    return number + 1, indent + max(problem.offset or 1, 1)
