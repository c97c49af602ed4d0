"""The page of a run in a real browser: it draws what the terminal draws, by mouse and keys, and asks for nothing."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import CHROMIUM, Opened, needs_browser
from drawn_run import text as drawn
from playwright.sync_api import expect, sync_playwright
from rich.console import ConsoleDimensions, Group

from ddpquiz.cli import saving
from ddpquiz.events import saved_run
from ddpquiz.events.event import Began, Claimed, ClaimText, End, Ended, Exited, Issued, Output, Raised
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_steps import EventCursor, beginnings, steps, time_before
from ddpquiz.events.summary_sections import Section
from ddpquiz.paths import recordings_dir
from ddpquiz.terminal.runs.frame import frame, on_screen
from ddpquiz.terminal.runs.replay import next_step
from ddpquiz.web import run_page

pytestmark = needs_browser
QUICK = ("allreduce", "elastic")
RECORDINGS = sorted(path.stem for path in recordings_dir().glob("*.json"))
WIDE = 2400  # columns in which the terminal leaves nothing out
SHOWN = """steps => steps.map(step => {
    ddpquizPage.go(step);
    const text = node => (node.querySelector(".is-new") ? "*" : "") + (node.querySelector("span") ?? node).textContent;
    const rows = [...document.querySelectorAll("#values tbody tr")];
    return {
        step: document.getElementById("step").textContent,
        operation: document.getElementById("operation").textContent,
        rows: rows.map(row => [row.querySelector("th").textContent, ...[...row.querySelectorAll("td")].map(text)]),
        lines: [...document.querySelectorAll("#lines li")].map(each => each.textContent),
        claims: [...document.querySelectorAll("#claims tr")].map(each => each.textContent),
    };
})"""


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    found = []

    def open_one(**options):
        found.append(Opened(browser, **options))
        return found[-1]

    yield open_one
    for each in found:
        each.context.close()


def page_of(events, path):
    path.write_text(saving.page_of(events, RunState.after(events), None), "utf-8")
    return path


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    return page_of(saved_run.read(recordings_dir() / "allreduce.json"), tmp_path_factory.mktemp("ring") / "run.html")


def bare(text):
    return re.sub(r"\s+", "", text)


def terminal(events, stops, cursor, step):
    """Return what the replay draws at a step, on a screen with room for everything."""
    state, coming = cursor.seek(stops[step]), next_step(events, stops, step, WIDE)
    if state.end:
        return bare(drawn(Group(frame(describe_frame(state), WIDE, tensors=True), coming), WIDE))
    shown = describe_frame(state, since=time_before(events, stops, step))
    body, below = on_screen(shown, ConsoleDimensions(WIDE, 1000), tensors=True)
    return bare(drawn(Group(body, *below, coming), WIDE))


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.slow) for name in RECORDINGS[::4] if name not in QUICK),
        *(pytest.param(name, marks=pytest.mark.large) for name in RECORDINGS if name not in {*QUICK, *RECORDINGS[::4]}),
    ],
)
def test_a_page_opens_from_disk_and_shows_at_every_operation_what_the_replay_shows(name, opened, tmp_path):
    events = saved_run.read(recordings_dir() / f"{name}.json")
    path, view = page_of(events, tmp_path / "run.html"), opened()
    page = view.goto(path)
    stops = steps(events)
    visited = sorted({*beginnings(events, stops), *range(0, len(stops), max(1, len(stops) // 8))})
    cursor, wrong = EventCursor(events), []
    for step, shown in zip(visited, page.evaluate(SHOWN, visited), strict=True):
        there = terminal(events, stops, cursor, step)
        rows = shown["rows"] if step < len(stops) - 1 else shown["rows"][1:]  # the last frame says nothing of `doing`
        texts = [shown["step"], shown["operation"], *shown["lines"], *shown["claims"]]
        if step == len(stops) - 1:
            texts.remove(shown["operation"])
        wrong += [(step, text) for text in texts if bare(text) not in there]
        wrong += [(step, row) for row in rows if not in_terminal(row, there)]
        assert len(rows) >= 2 + len(cursor.state.rows)
    assert wrong == []
    assert (view.complaints, view.requests) == ([], [path.as_uri()])


def in_terminal(row, there):
    """Whether the terminal shows a row: in one line, or what is drawn with letters and dots below each other."""
    name, *values = map(bare, row)
    return name + "".join(values) in there or all(f"rank{rank}{value}" in there for rank, value in enumerate(values))


def test_numbers_of_lines_of_progress_become_curves(opened, tmp_path):
    call = Operation("all_reduce", (0, 1), None, ((2,),), "float32", 8, "train.py", 3, "0", "sum")
    events = [Began("train.py", (), 2, "cpu", "gloo", "2 ranks")]
    for at, loss in enumerate((4, 3, 2, 0)):
        events += [Output(at + 0.1, rank, "stdout", f"iter {at}: loss {loss}, time 1ms") for rank in (0, 1)]
        events += [Issued(at + 0.2, rank, at, call, ()) for rank in (0, 1)]
        events += [Ended(at + 0.3, rank, at) for rank in (0, 1)]
    page = opened().goto(page_of([*events, End(5.0, True, 0, 0)], tmp_path / "run.html"))
    page.keyboard.press("End")
    rows = page.evaluate(
        "[...document.querySelectorAll('#values tbody tr')].map(row =>"
        " [row.querySelector('th').textContent, row.querySelectorAll('polyline').length])"
    )
    assert {tuple(row) for row in rows} >= {("loss", 2), ("iter", 0), ("time (ms)", 0)}


EVIL = ["</script><img src=x onerror=alert(1)>", "<b>bold</b>&amp;", "\u202eabc", "<!-- ", "x" * 100_000, "{{7*7}}"]


def hostile_events():
    call = Operation("<i>all_reduce", (0, 1), None, ((2,),), "float32", 8, "<u>train.py", 3, "0", "sum")
    return [
        Began("<u>train.py", (), 2, "cpu", "gloo", "<s>2 ranks", (ClaimText(3, "<em>claim"),), title="</title><h1>t"),
        *(Output(0.1, rank, "stdout", f"mine: {text}", "mine", text) for rank, text in enumerate(EVIL[:2])),
        *(Output(0.2, 0, "stderr", text) for text in EVIL),
        *(Issued(0.3, rank, 1, call, ("<q>1.0",)) for rank in (0, 1)),
        *(Ended(0.4, rank, 1) for rank in (0, 1)),
        Claimed(0.5, 0, 3, held=True),
        Raised(0.6, 1, "Error", "<p>bad", "Traceback <p>bad"),
        Exited(0.7, 1, 1),
        End(0.8, False, 1, 1, 1, "<p>why", "<p>mend"),
    ]


def test_hostile_text_stays_text(opened, tmp_path):
    view = opened()
    page = view.goto(page_of(hostile_events(), tmp_path / "run.html"))
    page.locator("#query").fill("<")
    page.keyboard.press("Escape")
    for _ in range(3):
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("End")
    assert page.locator("img, b, i, u, s, em, q, h1 ~ h1").count() == page.locator("i.sign").count()
    for text in (
        "<b>bold</b>&amp;",
        "</script><img src=x onerror=alert(1)>",
        "<p>why",
        "<em>claim",
        "96,000 more characters",
    ):
        assert text in page.locator("main").inner_text()
    assert page.locator("#title").inner_text() == "</title><h1>t"
    assert "\u202e" not in page.content()
    assert (view.complaints, len(view.requests)) == ([], 1)


def test_a_diagnosis_is_called_a_verdict_and_opened_and_what_made_ranks_wait_is_not(opened, tmp_path):
    straggler = list(saved_run.read(recordings_dir() / "straggler.json"))
    judged = saving.page_of(
        straggler, RunState.after(straggler), [Section(title="Rank 2 is late", sentences=("It is.",))]
    )
    (tmp_path / "judged.html").write_text(judged, "utf-8")
    pages = page_of(straggler, tmp_path / "run.html"), tmp_path / "judged.html"
    found = []
    for path in pages:
        page = opened().goto(path)
        report = page.locator("#report")
        found.append((page.locator("#report-title").inner_text(), report.get_attribute("open") is not None))
    assert found == [("Where the time went", False), ("The verdict", True)]
    assert "What made ranks wait" in pages[0].read_text("utf-8")


def test_keys_go_through_the_run_as_in_the_terminal(opened, ring):
    page = opened().goto(ring)
    step = page.locator("#step")
    assert page.locator("#report-title").inner_text() == "Where the time went"
    last = re.fullmatch(r"call (\d+) of \1", step.inner_text())[1]
    page.keyboard.press("Home")
    assert step.inner_text().startswith(f"call 0 of {last} · next: rank")
    page.keyboard.press("ArrowRight")
    assert step.inner_text().startswith("call 1 of")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("n")
    assert step.inner_text().startswith("call 1 of")
    page.keyboard.press("N")
    assert step.inner_text().startswith("call 0 of")
    page.keyboard.press("Space")
    assert step.inner_text().startswith("call 1 of")
    page.keyboard.press("a")
    expect(step).to_have_text(re.compile("^call [2-9]"))
    page.keyboard.press("a")
    assert page.locator("#play").inner_text() == "play"
    page.keyboard.press("3")
    assert page.locator("#log-rank").input_value() == "3"
    page.keyboard.press("+")
    assert page.evaluate(
        "ddpquizPage.lanes.to - ddpquizPage.lanes.from < ddpquizPage.lanes.last - ddpquizPage.lanes.first"
    )
    page.keyboard.press("f")
    assert page.evaluate("ddpquizPage.lanes.to === ddpquizPage.lanes.last")
    page.keyboard.press("?")
    assert page.locator("#keys-table").is_visible()


def test_a_search_finds_operations_and_lines_and_goes_to_them(opened, ring):
    page = opened().goto(ring)
    page.keyboard.press("/")
    page.keyboard.type("all_reduce")
    assert "all_reduce" in page.locator("#found button").first.inner_text()
    page.keyboard.press("Enter")
    assert "all_reduce" in page.locator("#call").inner_text()
    page.locator("#query").fill("rank 2 · bytes sent (ring)")
    assert page.locator("#found button").count() == 1


def test_a_link_opens_at_an_operation_and_the_address_follows(opened, ring):
    page = opened().goto(ring, "#op=12")
    assert page.locator("#call-title").inner_text().startswith("Operation 12 of")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("#op=13$"))
    page.evaluate("location.hash = '#op=2'")
    expect(page.locator("#call-title")).to_have_text(re.compile("^Operation 2 of"))


def test_a_click_on_the_timeline_goes_to_the_operation_there_and_names_it(opened, ring):
    page = opened().goto(ring)
    x, y = page.evaluate("""() => {
        const lanes = ddpquizPage.lanes, lane = lanes.lanes[1], at = lane.kinds.lastIndexOf("c");
        return [(lanes.x(lane.ends[at]) + lanes.x(lane.ends[at + 1])) / 2, 1.5 * lanes.height];
    }""")
    page.locator("#lanes").click(position={"x": x, "y": y})
    assert re.match(
        r"rank 1 · communication for .* · operation \d+ · all_reduce", page.locator("#pointer").inner_text()
    )
    assert "dist.all_reduce(" in page.locator("#code").inner_text()
    assert page.evaluate("ddpquizPage.step < ddpquizPage.run.last")


def open_parts(page, *parts):
    """Open parts of the page, and wait for the rows of its table, which are made when the browser tells that it is open."""
    for part in parts:
        page.locator(f"#{part} summary").click()
    page.locator("#table-body tbody tr").first.wait_for()


def test_the_table_behind_the_timeline_lists_the_operations(opened, ring):
    page = opened().goto(ring, "#op=3")
    open_parts(page, "table")
    rows = page.locator("#table-body tbody tr")
    assert rows.count() == page.evaluate("ddpquizPage.run.operations.names.length")
    assert rows.nth(2).locator("button").get_attribute("aria-current") == "step"
    rows.nth(6).locator("button").click()
    assert page.locator("#call-title").inner_text().startswith("Operation 7 of")


LOOKS = {
    "wide": {"viewport": {"width": 1400, "height": 900}},
    "phone": {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2},
    "80 % zoom, dark": {
        "viewport": {"width": 1750, "height": 1125},
        "device_scale_factor": 0.8,
        "color_scheme": "dark",
    },
}


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_wider_than_the_screen(look, opened, ring):
    page = opened(**LOOKS[look]).goto(ring, "#op=3")
    open_parts(page, "table", "report", "keys")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_checker_finds_no_serious_fault_of_access(scheme, opened, tmp_path):
    events = saved_run.read(recordings_dir() / "deadlock.json")
    view = opened(color_scheme=scheme, bypass_csp=True)  # the checker is a script of its own
    page = view.goto(page_of(events, tmp_path / "run.html"), "#op=3")
    open_parts(page, "table", "report", "keys")
    found = [each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found] == []


def test_everything_is_reached_with_the_tab_key_in_the_order_of_the_page(opened, ring):
    page = opened().goto(ring)
    places = []
    for _ in range(60):
        page.keyboard.press("Tab")
        place = page.evaluate("""() => {
            const all = [...document.querySelectorAll("*")];
            return document.activeElement === document.body ? -1 : all.indexOf(document.activeElement);
        }""")
        if place < 0 or (places and place == places[0]):
            break
        places.append(place)
    assert places == sorted(places)
    assert len(places) > 18


def test_a_page_opens_from_compressed_data(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(run_page, "PLAIN", 1000)
    path = page_of(saved_run.read(recordings_dir() / "allreduce.json"), tmp_path / "run.html")
    assert '"operations":' not in path.read_text("utf-8")
    page = opened().goto(path, "#op=7")
    assert page.locator("#call-title").inner_text() == "Operation 7 of 25"
    assert page.locator("#values tbody tr").nth(3).inner_text().split("\t")[:2] == ["mine", "0 1 2 3"]
