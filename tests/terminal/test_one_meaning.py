"""One meaning a key: what each key does on all screens, found in the code of all of them."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import ddpquiz

PACKAGE = Path(ddpquiz.__file__).parent
DOCS = PACKAGE.parent / "docs" / "commands.md"
MEANINGS = {
    "u": {"undo", "look back", "back", "question"},  # in an exam: back to the question before this one
    "d": {"demo"},
    "p": {"proof", "calculation"},
    "l": {"lesson"},
    "h": {"hint", "hint (1)"},
    "e": {"editor"},
    "r": {"again"},
    "/": {"look up"},
    "?": {"help"},
    "esc": {"back", "back to the list", "stages"},
    "q": {"quit", "leave", "stop", "end", "end the exam", "back", "<screen>"},
    "space": {"show the back", "good", "go on", "next page", "all reasons"},
    "enter": {
        *("next", "next verdict", "forward", "go on", "begin", "leave", "back", "answer", "read", "show the answer"),
        *("back to the card", "<does>", "<str(now.stage)>", "show the back", "good"),
    },
    "1": {
        *("answer", "choose", "tick", "stage", "question", "start", "log"),
        *("<NAMES[grade]>", "<f'{word} {confidence:.0%}'>"),
    },
}
ONLY_ENTER = (
    "leave",
    "answer",
    "read",
    "show the answer",
    "<does>",
    "back to the card",
)  # a blank typed once too often must not do it
CHECKED_ELSEWHERE = {"<key>", "<name>", "<before + key.key>"}  # keys in a variable: of a path, of logs, after escape


class Named(NamedTuple):
    place: str
    key: str
    does: str
    also: tuple[str, ...]


def words(node):
    """A text of the code; what is computed stands in angle brackets, and a number that is computed as 1."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.IfExp):
        return f"{words(node.body)}\n{words(node.orelse)}"
    if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        return "".join(part.value if isinstance(part, ast.Constant) else "1" for part in node.values)
    return f"<{ast.unparse(node)}>"


def hotkeys():
    """Each `Hotkey(...)` of the package, once for each key and each meaning that it may have."""
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text()
        for node in ast.walk(ast.parse(source)) if "Hotkey(" in source else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Hotkey":
                given = {each.arg: each.value for each in node.keywords}
                also = list(ast.walk(given["also"])) if "also" in given else []
                more = tuple(each.value for each in also if isinstance(each, ast.Constant))
                for key in words(node.args[0]).split("\n"):
                    for does in words(node.args[1]).split("\n"):
                        yield Named(f"{file.name}:{node.lineno}", key, does, more)


ALL = list(hotkeys())


def meaning(key):
    """The keys of the table that a name stands for."""
    return "1" if re.match("[0-9]|<str", key) else "q" if key == "<QUIT.key>" else key


def test_the_hotkeys_of_all_screens_are_found():
    assert {Path(each.place.split(":")[0]).stem for each in ALL} >= {
        "key_screen", "home_screen", "study_screen", "quiz_screen", "question_view", "explain_screen", "prediction", "proof_screen",
        "lookup", "path_screen", "sitting", "lab_screen", "replay", "run_screen", "live_view", "job_watch",
    }  # fmt: skip
    computed = {each.key for each in ALL if each.key.startswith("<")}
    assert computed <= {*CHECKED_ELSEWHERE, "<str(number)>", "<str(key)>", "<QUIT.key>"}


@pytest.mark.parametrize("named", ALL, ids=lambda named: f"{named.place}-{named.key}")
def test_no_key_of_the_table_means_anything_else(named):
    key = meaning(named.key)
    assert key not in MEANINGS or named.does in MEANINGS[key]


@pytest.mark.parametrize("named", ALL, ids=lambda named: f"{named.place}-{named.key}")
def test_space_does_what_enter_does_where_both_are_safe(named):
    twin = {"space": "enter", "enter": "space"}.get(named.key)
    if twin and named.does not in ONLY_ENTER and named.does not in ("next page", "all reasons"):
        assert twin in named.also


def test_the_documentation_names_each_key():
    section = DOCS.read_text().partition("## Keys")[2].partition("\n## ")[0]
    for key in MEANINGS:
        assert f"`{key}`" in section
