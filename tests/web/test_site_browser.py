"""The site in a real browser: cards are graded, questions judged as in the terminal, and progress can be imported."""

import functools
import json
import threading
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import CHROMIUM, Opened, needs_browser
from playwright.sync_api import Error, expect, sync_playwright
from progress_histories import AT, TOOK, exported
from run_program import piped
from sample import answer_row
from sample_catalog import CATALOG, RING, SHIPPED

from ddpquiz.cli.site import picture_texts, run_pages
from ddpquiz.curriculum.concept import Kind
from ddpquiz.curriculum.labs import labs_of
from ddpquiz.learning import exchange
from ddpquiz.learning.judge import judge
from ddpquiz.learning.log_rows import ExplanationRow, LabRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Weights
from ddpquiz.terminal.pages.item import sample
from ddpquiz.web.site import site_pages, write_site
from ddpquiz.web.site_concept import question_data

pytestmark = needs_browser
RING_PAGE = "concepts/ring.html"
RUNS = {link.run for concept in SHIPPED.concepts for link in concept.demos}
SHIPPED_IDS = [concept.id for concept in SHIPPED.concepts]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a path #1") / "site"
    questions = tuple(
        replace(each, card="held", hints=("Add first.",) if each.id == "order" else each.hints)
        for each in RING.questions
    )
    known = replace(CATALOG, concepts=(CATALOG.concepts[0], replace(RING, questions=questions)))
    write_site(folder, site_pages(known, {}))
    return folder


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host") / "some where" / "site"
    runs = dict.fromkeys(RUNS, "a run") | run_pages({"allreduce"})  # to write all of them takes long
    write_site(folder, site_pages(SHIPPED, runs, labs_of(SHIPPED_IDS), picture_texts()))
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(shipped):
    """Yield where a static host has the shipped site: below a path with a blank."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=shipped.parents[1]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/some%20where/site"
    server.shutdown()
    server.server_close()


@pytest.fixture
def opened(browser):
    one = Opened(browser, accept_downloads=True)
    yield one
    one.context.close()


def question(page, number):
    return page.locator(".question").nth(number)


def answer(section, text):
    section.locator("[name=answer]").fill(text)
    section.get_by_role("button", name="Answer").click()


def reload(page):
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")


def wait_for_stored(page, selector, words):
    """Reload until a page shows what was stored: it may be in another process, which learns of it some seconds later."""
    for _ in range(120):
        if words in page.locator(selector).text_content():
            return
        page.wait_for_timeout(500)
        reload(page)
    expect(page.locator(selector)).to_contain_text(words)


def test_grades_and_answers_are_there_after_a_reload_and_can_be_imported(opened, site, tmp_path):
    page = opened.goto(site / RING_PAGE)
    card = page.locator("#card-held")
    assert not card.get_by_text("The sum of all tensors.").is_visible()
    card.locator("summary").press("Enter")
    card.get_by_role("button", name="hard").press("Enter")
    expect(card.locator(".state")).to_contain_text("You graded it hard")
    sent, bug, order = question(page, 0), question(page, 1), question(page, 2)
    answer(sent, "2,400")
    expect(sent.locator(".state")).to_have_text("Wrong.")
    expect(sent.get_by_text("That is the limit for very many ranks.")).to_be_visible()
    expect(sent.locator(".solution")).to_contain_text("A chunk has 1,200 / 4 = 300 bytes.")
    answer(sent, "1800 bytes")
    expect(sent.locator(".state")).to_contain_text("not counted")
    bug.get_by_label("dist.barrier()").check()
    bug.get_by_role("button", name="Answer").click()
    expect(bug.get_by_text("A barrier moves no data.")).to_be_visible()
    order.get_by_role("button", name="Hint").click()
    expect(order.get_by_text("Add first.")).to_be_visible()
    answer(order, "2 1")
    expect(order.locator(".state")).to_have_text("Right.")
    reload(page)
    wait_for_stored(page, "#card-held .state", "You graded it hard")  # the card is closed again
    expect(question(page, 2).locator(".state")).to_contain_text("was right")

    page = opened.goto(site / "index.html")
    ring, stored = "[data-concept=ring][data-cards]", "1 of 1 cards graded, 1 of 4 questions right"
    wait_for_stored(page, ring, stored)
    expect(page.locator(ring)).to_have_text(stored)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download progress").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    done = piped(tmp_path / "home", "import", file)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "4 of 4 log rows were new.")
    with Progress(tmp_path / "home") as progress:
        rows = [*progress.log()]
        assert progress.memories()["ring/held"].reps == 1
    assert [(row.kind, row.grade, row.credit, row.made_due_card) for row in rows] == [
        ("review", 2, None, None),
        ("answer", None, 0, "ring/held"),
        ("answer", None, 0, "ring/held"),
        ("answer", None, 0.5, None),
    ]
    assert (rows[1].given, rows[2].given) == ("2,400 with n=4, s=1200", "dist.barrier()")
    assert opened.complaints == []
    assert {address.partition(":")[0] for address in opened.requests} <= {"file", "blob"}


def test_an_answer_after_the_solution_is_not_counted(opened, site):
    page = opened.goto(site / RING_PAGE)
    page.evaluate("ddpquizSite.progress.forget()")
    order = question(page, 2)
    order.get_by_role("button", name="Solution").click()
    answer(order, "2 1")
    expect(order.locator(".state")).to_contain_text("not counted")
    assert page.evaluate("ddpquizSite.progress.rows()") == []


def test_progress_of_the_terminal_can_be_read_and_a_damaged_file_is_refused(opened, site, tmp_path):
    page = opened.goto(site / "index.html")
    page.evaluate("ddpquizSite.progress.forget()")
    row = {"kind": "review", "item": "ring/held", "at": "2026-01-02T03:04:05.000006Z", "day": "2026-01-02", "grade": 3}
    row["weights"] = Weights().version
    undo = {**row, "kind": "undo", "grade": None, "undone_device": "x", "undone_sequence": 1}
    rows = [exchange.read_row({**each, "device": "x", "sequence": n}) for n, each in enumerate((row, row, undo), 1)]
    for name, text in (("bad.json", "{}"), ("worse.json", "<")):
        (tmp_path / name).write_text(text)
        page.set_input_files("#upload", tmp_path / name)
        expect(page.locator("#progress-state")).to_contain_text("This file is not")
    with (tmp_path / "good.json").open("w") as file:
        exchange.write_json(rows, {Weights(): ""}, file)
    page.set_input_files("#upload", tmp_path / "good.json")
    expect(page.locator("#progress-state")).to_have_text(
        "1 grades and answers in this browser. 3 of 3 entries were new."
    )
    expect(page.locator("[data-concept=ring][data-cards]")).to_contain_text("1 of 1 cards graded")


REVIEW = {
    "kind": "review", "item": "ring/held", "at": "2026-01-02T03:04:05.000006Z", "day": "2026-01-02", "grade": 3,
    "device": "x", "sequence": 1, "weights": Weights().version,
}  # fmt: skip
ANSWER = {**REVIEW, "kind": "answer", "item": "ring/sent", "sequence": 2, "credit": 1, "given": "3", "level": "easy"}
ANSWER = {**ANSWER, "chance": 0, "retry": True} | {"grade": None}
NO_ROWS = [
    None, 3, "review", [], {},
    *({**REVIEW, name: value} for name, value in {
        "kind": "dream", "item": 3, "at": "yesterday", "day": "soon", "device": None, "sequence": "1", "weights": "other",
        "grade": "3", "took": 0.5, "calls": ["ring/held"], "toString": 1,
    }.items()),
    *({**ANSWER, name: value} for name, value in {
        "credit": "1", "chance": 2, "given": {}, "level": None, "retry": 1, "confidence": True,
    }.items()),
    {**REVIEW, "kind": "undo", "grade": None, "undone_device": "x"},
]  # fmt: skip


def progress_text(rows, **more):
    weights = {"version": Weights().version, "since": "", "retention": Weights().retention}
    known = [{**weights, "parameters": Weights().parameters}]
    return json.dumps({"format": exchange.FORMAT, "version": exchange.VERSION, "weights": known, "log": rows, **more})


def test_only_rows_that_the_page_can_use_are_kept(opened, site):
    page = opened.goto(site / "index.html")
    stored = progress_text([REVIEW, *NO_ROWS, ANSWER], here="here")
    page.evaluate("text => localStorage.setItem('ddpquiz progress', text)", stored)
    assert page.evaluate("ddpquizSite.progress.rows()") == [REVIEW, ANSWER]
    rows, _, _ = exchange.read_json(page.evaluate("ddpquizSite.progress.exported()"), "the file")
    assert rows == [exchange.read_row(REVIEW), exchange.read_row(ANSWER)]
    for row in NO_ROWS:
        with pytest.raises(Error, match="This file is damaged, so nothing was read"):
            page.evaluate("text => ddpquizSite.progress.merge(text)", progress_text([{**REVIEW, "sequence": 9}, row]))
    assert page.evaluate("ddpquizSite.progress.rows()") == [REVIEW, ANSWER]


def test_rows_of_every_kind_that_the_terminal_writes_are_kept(opened, site, tmp_path):
    with Progress(tmp_path) as progress:
        card, question = RING.cards[0].key, RING.questions[0].key
        progress.review(card, Grade.HARD, AT, TOOK)
        progress.answer(answer_row(question, 0, given="3", level="easy", confidence=0.75, made_due_card=card), AT)
        point = PointRow("every rank", matched=True)
        progress.explain(ExplanationRow(item="ring/why", took=TOOK, given="a text", points=[point]), AT)
        progress.lab(LabRow(item="ring/lab", passed=True, stars=["fewest bytes"]), AT)
        progress.stage("ring/lesson", "done", AT)
        progress.undo(progress.flag(card, "unclear", AT), AT)
        progress.suspend(card, AT)
        progress.bury(card, AT)
        text = exported(progress)
    page = opened.goto(site / "index.html")
    page.evaluate("ddpquizSite.progress.forget()")
    assert page.evaluate("text => ddpquizSite.progress.merge(text)", text) == "9 of 9 entries were new."
    assert exchange.read_json(page.evaluate("ddpquizSite.progress.exported()"), "file") == exchange.read_json(
        text, "file"
    )


def test_search_finds_cards_and_opens_them(opened, site):
    page = opened.goto(site / "index.html")
    page.get_by_label("Words in titles, ideas, cards and labs").fill("tensors ALL hold")
    expect(page.locator("#found-count")).to_have_text("1 found")
    page.locator("#found a").click()
    expect(page.get_by_text("The sum of all tensors.")).to_be_visible()
    assert page.url.endswith("#card-held")


def test_answers_are_judged_as_in_the_terminal(opened, site):
    page = opened.goto(site / RING_PAGE)
    cases = []
    for each in SHIPPED.questions():
        asked = sample(each).question
        if asked.kind in (Kind.NUMBER, Kind.OUTPUT):
            typed = [
                asked.answer,
                f" '{asked.answer}' ",
                *(trap.answer for trap in asked.traps),
                "",
                "nonsense 17.5",
                "(1+",
            ]
            typed += [f"{asked.answer} {asked.unit}", f"2*{asked.answer}/2", "1,8"] if asked.kind is Kind.NUMBER else []
            cases += [(each, given) for given in typed]
        elif asked.kind is Kind.ORDER:
            count = len(asked.lines)
            cases += [(each, " ".join(map(str, range(1, count + 1)))), (each, "1 1"), (each, "x")]
    data = [[question_data(sample(each), ()), given] for each, given in cases]
    verdicts = page.evaluate("cases => cases.map(([question, given]) => ddpquizSite.judge(question, given))", data)
    wrong = []
    for (each, given), found in zip(cases, verdicts, strict=True):
        posed = sample(each)
        wanted = judge(posed, given)
        whys = () if posed.question.kind is Kind.ORDER else wanted.whys
        shown = tuple(posed.question.traps[place].why for place in found.get("whys", ()))
        if (wanted.right, bool(wanted.unclear), whys) != (found.get("right", False), "unclear" in found, shown):
            wrong.append((each.key, given, wanted, found))
    assert len(cases) > 1000
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_of_access(browser, site, scheme):
    one = Opened(browser, color_scheme=scheme, viewport={"width": 380, "height": 800})
    for path in (RING_PAGE, "index.html"):
        page = one.goto(site / path)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        found = [each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")]
        assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
    assert one.complaints == []
    one.context.close()


def test_the_page_of_a_concept_holds_what_is_taught(opened, site):
    text = opened.goto(site / RING_PAGE).locator("main").text_content()
    for words in (
        RING.title,
        "Divide by world_size.",
        "[rank 0] sum: 10",
        "Every link is busy.",
        "<rank> &amp; [bold]",
    ):
        assert words in text


def test_json_of_the_browser_is_the_format_of_the_terminal(opened, site):
    page = opened.goto(site / "index.html")
    page.evaluate("ddpquizSite.progress.forget()")
    rows, weights, _ = exchange.read_json(page.evaluate("ddpquizSite.progress.exported()"), "the file")
    assert (rows, [*weights]) == ([], [Weights()])


def test_a_host_below_any_path_serves_pages_runs_and_progress(opened, address):
    page = opened.page
    page.goto(f"{address}/index.html")
    page.get_by_label("Words in titles, ideas, cards and labs").fill("ring all-reduce write")
    page.locator("#found a[href*=lab-ring-all-reduce]").click()
    expect(page.locator("#lab-ring-all-reduce")).to_be_in_viewport()
    card = page.locator("details.card").first
    card.locator("summary").click()
    card.get_by_role("button", name="good").click()
    expect(card.locator(".state")).to_contain_text("You graded it good")
    page.get_by_role("link", name="a recorded run of allreduce").first.click()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.url == f"{address}/runs/allreduce.html#op=1"
    expect(page.locator("#call-title")).to_contain_text("Operation 1 of")
    page.get_by_role("link", name="All recorded runs").click()
    expect(page.locator("#runs")).to_be_in_viewport()
    page.goto(f"{address}/index.html")
    expect(page.locator("#progress-state")).to_contain_text("1 grades and answers in this browser.")
    assert opened.complaints == []
    assert {each for each in opened.requests if not each.startswith(address)} == set()


def test_a_line_at_fault_is_chosen_and_a_wrong_one_says_why(opened, shipped):
    page = opened.goto(shipped / "concepts/collective-ops.html")
    asked = next(each for each in SHIPPED.questions() if each.key == "collective-ops/first-of-the-pair")
    section = page.locator("#question-first-of-the-pair")
    section.get_by_label(asked.traps[0].answer).check()
    section.get_by_role("button", name="Answer").click()
    expect(section.locator(".state")).to_contain_text("Wrong.")
    expect(section.locator(".why:visible")).to_have_text(asked.traps[0].why.replace("`", ""))
    section.get_by_label(asked.answer).check()
    section.get_by_role("button", name="Answer").click()
    expect(section.locator(".state")).to_contain_text("not counted")
    assert opened.complaints == []


TEXTS = """figure => {
  const [back, view] = [getComputedStyle(document.documentElement).backgroundColor, figure.firstElementChild.viewBox.baseVal];
  const light = color => {
    const parts = color.match(/[\\d.]+/g).map(Number);
    const linear = parts.slice(0, 3).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const shapes = [...figure.querySelectorAll("rect, path")].filter(shape => getComputedStyle(shape).fill !== "none");
  return [...figure.querySelectorAll("text")].map(text => {
    const contrasts = [...text.textContent].map((_, at) => {
      const {x, y, width, height} = text.getExtentOfChar(at), middle = new DOMPoint(x + width / 2, y + height / 2);
      const below = shapes.filter(shape => shape.isPointInFill(middle)).map(shape => getComputedStyle(shape).fill);
      const [dark, bright] = [getComputedStyle(text).fill, below.at(-1) ?? back].map(light).sort((one, other) => one - other);
      return (bright + 0.05) / (dark + 0.05);
    });
    const box = text.getBBox();
    const inside = box.x >= -0.5 && box.y >= 0 && box.x + box.width <= view.width + 0.5 && box.y + box.height <= view.height;
    return {text: text.textContent, box: [box.x, box.y, box.x + box.width, box.y + box.height], inside,
      contrast: Math.min(...contrasts)};
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_a_picture_can_be_read_on_a_phone_and_no_two_overlap(browser, shipped, scheme):
    one = Opened(browser, color_scheme=scheme, viewport={"width": 360, "height": 800})
    seen = set()
    for concept in SHIPPED.concepts:
        names = [*filter(None, [*(step.picture for step in concept.steps), concept.picture])]
        if not names or seen.issuperset(names):
            continue
        seen.update(names)
        page = one.goto(shipped / f"concepts/{concept.id}.html")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        for figure, name in zip(page.locator("figure.picture").all(), names, strict=True):
            expect(figure).to_be_visible()
            texts = figure.evaluate(TEXTS)
            assert [each for each in texts if each["contrast"] < 4.5 or not each["inside"]] == [], name
            for at, (left, top, right, bottom) in enumerate(boxes := [each["box"] for each in texts]):
                over = [
                    each
                    for each in boxes[:at]
                    if left < each[2] and each[0] < right and top + 2 < each[3] and each[1] + 2 < bottom
                ]
                assert over == [], (name, texts[at])
            assert 12 * figure.locator("svg").bounding_box()["width"] / 360 > 11, "letters of 12 in a width of 360"
    assert seen == picture_texts().keys()
    assert one.complaints == []
    one.context.close()


def test_print_shows_what_is_folded_and_no_buttons(opened, shipped):
    page = opened.goto(shipped / "concepts/all-reduce-ring.html")
    assert page.locator("details:not([open])").count() > 10
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("button").first.is_hidden()
    assert page.locator("pre").first.is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shipped_pages_have_no_serious_fault_of_access(browser, shipped, scheme, scale):
    one = Opened(browser, color_scheme=scheme, viewport={"width": 380, "height": 800})
    found = []
    for path in [shipped / "index.html", *sorted(shipped.glob("concepts/*.html"))[:: scale(48, 8)]]:
        page = one.goto(path)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        faults = [each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")]
        found += [(path.name, each["id"], [node["html"] for node in each["nodes"]][:2]) for each in faults]
        if page.evaluate("document.documentElement.scrollWidth") > 380:
            found.append((path.name, "wider than the screen", []))
    assert found == []
    assert one.complaints == []
    one.context.close()
