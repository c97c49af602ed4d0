"""One content file: its bytes, its YAML nodes, and the complaints about them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml

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

PLAIN_TAGS: dict[type[yaml.Node], str] = {
    yaml.ScalarNode: "tag:yaml.org,2002:str",
    yaml.MappingNode: "tag:yaml.org,2002:map",
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
}


class _Nodes(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader without types: `no`, 1.0 and 2024-01-01 stay text."""

    def resolve(self, kind: type[yaml.Node], _value: str, _implicit: tuple[bool, bool]) -> str:
        return PLAIN_TAGS[kind]

    def descend_resolver(self, _parent: yaml.Node, _index: object) -> None: ...

    def ascend_resolver(self) -> None: ...


class Mention(NamedTuple):
    """A place in a file that names something outside it: a concept, a source, a demo, its argument or label."""

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
    """Return a path as a user would write it: relative if it is below the working directory."""
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
