"""The page of a run as text: what it may load and run, how its data is stored, and what it holds of a long run."""

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser

import pytest

from ddpquiz.cli import saving
from ddpquiz.events import saved_run
from ddpquiz.events.event import Began, End, Ended, Issued, Output
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_steps import beginnings, steps
from ddpquiz.paths import recordings_dir
from ddpquiz.safe_text import plain
from ddpquiz.web.run_page import PageInput, run_data, run_page

BEGAN = Began("train.py", (), 2, "cpu", "gloo", "2 ranks on CPU", title="A title")


FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch\(|XMLHttpRequest|import\(|localStorage"
)


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the text inside of each script and style."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.inside, self.is_inside = [], [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.is_inside = tag in ("script", "style")
        if self.is_inside:
            self.inside.append("")

    def handle_endtag(self, _):
        self.is_inside = False

    def handle_data(self, data):
        if self.is_inside:
            self.inside[-1] += data


def page(*events):
    return run_page(PageInput(events=[BEGAN, *events, End(9.0, True, 0, 0)]))


def data_of(text):
    stored = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    if not isinstance(stored, str):
        return stored
    packed = base64.b85decode(stored.translate(str.maketrans(",:[", "&<>")))
    return json.loads(zlib.decompress(packed))


def calls(count, ranks=2):
    members = tuple(range(ranks))
    for number in range(1, count + 1):
        operation = Operation("all_reduce", members, None, ((4,),), "float32", 16, "train.py", 7, "0", "sum")
        now = number / 100
        yield from (
            Issued(now + rank / 1e4, rank, number, operation, (f"[{number}.5, {rank}.25]",)) for rank in members
        )
        yield from (Ended(now + 1e-3, rank, number) for rank in members)
        yield from (Output(now + 2e-3, rank, "stdout", f"loss: {number}", "loss", f"{number}") for rank in members)


def test_it_may_run_its_own_script_and_style_and_make_no_request():
    elements = Elements(page())
    policy = next(
        given["content"] for tag, given in elements.tags if given.get("http-equiv") == "Content-Security-Policy"
    )
    style, _, script = elements.inside
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; base-uri 'none'; "
        "form-action 'none'"
    )
    assert [tag for tag, given in elements.tags if {"src", "href", "style"} & given.keys()] == []
    assert not re.search(r"url\(|@import|@font-face", style)


def test_its_script_writes_no_markup_and_runs_no_text():
    script = Elements(page()).inside[2]
    assert script.startswith('"use strict";')
    assert FORBIDDEN.findall(script) == []
    assert len(script.splitlines()) < 900


@pytest.mark.parametrize("evil", ["</script><script>alert(1)</script>", "<!--<script>", "]]>&amp;", "\u2028\u2029"])
def test_text_of_a_run_cannot_end_the_element_that_holds_it(evil):
    text = page(Output(0.1, 0, "stdout", evil), Output(0.2, 1, "stdout", f"say: {evil}", "say", evil))
    assert [tag for tag, _ in Elements(text).tags].count("script") == 2
    assert data_of(text)["logs"]["texts"] == [plain(evil)] * 2  # without separators of lines


def test_characters_that_steer_a_reader_are_dropped():
    assert data_of(page(Output(0.1, 0, "stdout", "a\x1b[2Jb\u202ec")))["logs"]["texts"] == ["a[2Jbc"]


def test_much_data_is_compressed_and_the_same(monkeypatch):
    events = [BEGAN, *calls(40), End(90.0, True, 0, 0)]
    plain = run_page(PageInput(events=events))
    monkeypatch.setattr("ddpquiz.web.run_page.PLAIN", 1000)
    text = run_page(PageInput(events=events))
    assert len(text) < len(plain)
    assert data_of(text) == json.loads(json.dumps(run_data(PageInput(events=events))))


def test_an_operation_has_its_line_of_source_and_each_call_its_operation():
    script = "\n".join(f"line {number}" for number in range(1, 20))
    data = run_data(PageInput(events=[BEGAN, *calls(2), End(9.0, True, 0, 0)], script=script))
    assert data["operations"]["lines"] == [["train.py:7", "line 7"]]
    assert data["calls"] == {"ranks": [0, 1, 0, 1], "operations": [0, 0, 1, 0]}


def test_a_file_that_is_no_python_does_not_get_into_a_page(tmp_path):
    secret = tmp_path / "key.txt"
    secret.write_text("secret\n" * 9)
    call = Operation("barrier", (0, 1), None, (), "", 0, str(secret), 7)
    events = [Began(str(secret), (), 2, "cpu", "gloo", ""), Issued(0.1, 0, 1, call), End(9.0, True, 0, 0)]
    assert "secret\\n" not in (text := saving.page_of(events, RunState.after(events), None))
    assert data_of(text)["source"] is None
    assert data_of(text)["operations"]["lines"] == [["key.txt:7", ""]]


def test_of_a_long_run_a_page_holds_the_end_and_says_so(monkeypatch):
    monkeypatch.setattr(saving, "PAGE_EVENTS", 300)
    events = [BEGAN, *calls(200), End(90.0, True, 0, 0)]
    data = data_of(saving.page_of(events, RunState.after(events), None))
    assert data["isCut"]
    assert 50 <= len(data["calls"]["ranks"]) <= 300
    assert data["logs"]["texts"][-1] == "200"


@pytest.mark.parametrize("name", ["allreduce", "pipeline", "elastic"])
def test_its_operations_are_those_of_the_replay(name):
    events = saved_run.read(recordings_dir() / f"{name}.json")
    data = run_data(PageInput(events=events))
    stops = steps(events)
    operations = [sum(data["calls"]["operations"][: at + 1]) for at in range(len(stops) - 1)]
    first = [operations.index(number) for number in range(len(data["operations"]["names"]))]
    assert first == beginnings(events, stops)[:-1]
