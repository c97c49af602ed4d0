"""The curriculum as a site: every item has its place, every link leads somewhere, and no text becomes markup."""

import dataclasses
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from inline_snapshot import snapshot
from run_program import piped
from sample_catalog import CATALOG, RING, SHIPPED

from ddpquiz.cli.lab import all_labs
from ddpquiz.cli.site import picture_texts, run_pages
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Kind, LessonStep, LineChange, Listing, Shows
from ddpquiz.curriculum.lab_solution import LabSolution, Part
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.errors import UserError
from ddpquiz.terminal.pages.item import sample
from ddpquiz.web.run_page import asset, policy
from ddpquiz.web.site import MARKER, PageLinks, check_links, site_pages, write_site
from ddpquiz.web.site_concept import card_places, proof_text
from ddpquiz.web.site_index import direct_needs

pytestmark = pytest.mark.xdist_group("site")  # one worker builds it
HOSTILE = (
    """</script></title><img src=x onerror=alert(1)><!-- "' onclick="x" &lt; [x](javascript:alert(1)) \u202e\x1b[2J"""
)
NEUTRAL = ("id", "concept", "track", "needs", "kind", "level", "source", "proof", "predict", "variables")


@pytest.fixture(scope="module")
def shipped():
    runs = dict.fromkeys({link.run for concept in SHIPPED.concepts for link in concept.demos}, "run")
    return site_pages(SHIPPED, runs, all_labs(), picture_texts())


class Parsed(HTMLParser):
    """The elements and attributes of a page, and its text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.inside = [], [], "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.inside = tag

    def handle_endtag(self, _):
        self.inside = ""

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.text += data


def test_every_concept_has_a_page_with_all_of_its_items(shipped):
    assert {path for path in shipped if path.startswith("concepts/")} == {
        f"concepts/{concept.id}.html" for concept in SHIPPED.concepts
    }
    for concept in SHIPPED.concepts:
        ids = set(PageLinks(shipped[f"concepts/{concept.id}.html"]).ids)
        wanted = {f"card-{each.id}" for each in concept.cards} | {f"question-{each.id}" for each in concept.questions}
        assert wanted | {f"explain-{each.id}" for each in concept.explain} <= ids


def test_the_first_page_leads_to_every_concept_and_run(shipped):
    links = PageLinks(shipped["index.html"]).links
    assert {path for path in shipped if path != "index.html"} <= {link.partition("#")[0] for link in links}


def test_a_concept_has_its_labs_with_the_task_the_file_to_begin_with_and_the_hints(shipped):
    for lab in all_labs():
        page = Parsed(shipped[f"concepts/{lab.concept}.html"])
        assert ("id", f"lab-{lab.id}") in page.attributes
        assert f"$ ddpquiz lab {lab.id}" in page.text
        assert lab.solution.starter.strip() in page.text
        assert lab.solution.source.strip() not in page.text
        assert page.text.count("Hint 3") >= 1
        assert f'"concepts/{lab.concept}.html#lab-{lab.id}"' in shipped["index.html"]


def test_pages_ask_for_nothing_and_allow_only_their_own_script_and_style(shipped):
    for path, page in shipped.items():
        if path.startswith("runs/"):
            continue
        assert not PageLinks(page).loads
        style = re.search("<style>(.*?)</style>", page, re.DOTALL)[1]
        script = re.search("<script>(.*?)</script>", page, re.DOTALL)[1]
        assert f'content="{policy(style, script)}"' in page
        assert "url(" not in style
        assert "@import" not in style
        for word in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"):
            assert word not in script
    names = {name for page in shipped.values() for name, _ in Parsed(page).attributes}
    assert not {name for name in names if name.startswith("on") or name == "style"}


def hostile(value, name=""):
    """Return a tree of content in which every free text is hostile."""
    if isinstance(value, str):
        return value if name in NEUTRAL or not value or isinstance(value, Kind) else HOSTILE
    if name in NEUTRAL:
        return value
    if isinstance(value, tuple):
        return tuple(hostile(each, name) for each in value)
    if isinstance(value, dict):
        return {HOSTILE: HOSTILE}
    if dataclasses.is_dataclass(value):
        return replace(
            value, **{each.name: hostile(getattr(value, each.name), each.name) for each in dataclasses.fields(value)}
        )
    return value


def test_hostile_texts_stay_text():
    questions = tuple(each for each in RING.questions if each.kind is not Kind.NUMBER)
    concept = hostile(replace(RING, questions=questions))
    known = Catalog((replace(CATALOG.tracks[0], title=HOSTILE),), (CATALOG.concepts[0], concept), {})
    lab = replace(load_lab("ring-all-reduce"), concept=RING.id)
    evil = replace(lab, title=HOSTILE, task=HOSTILE, hints=(HOSTILE,), solution=LabSolution((Part(HOSTILE),)))
    tame, pages = site_pages(CATALOG, {}, [lab]), site_pages(known, {}, [evil])
    for path, page in pages.items():
        parsed = Parsed(page)
        assert set(parsed.tags) <= set(Parsed(tame[path]).tags) | {"h3", "h4"}, path
        assert "img" not in parsed.tags
        assert parsed.tags.count("script") == 2
        assert not {name for name, _ in parsed.attributes if name.startswith("on")}
        assert not {value for name, value in parsed.attributes if name == "href" and "javascript" in value}
        assert not re.search("[\x1b\u202e]", page)
        assert "<img src=x onerror=alert(1)>" in parsed.text


@pytest.mark.parametrize(
    "link", ["missing.html", "ring.html#nowhere", "/etc/passwd", "../../x.html", "mailto:x@example.org", "https:"]
)
def test_a_link_that_leads_nowhere_ends_the_build_with_a_sentence(link):
    broken = replace(RING, steps=(LessonStep(f"See [there]({link})."),))
    with pytest.raises(UserError, match=r"concepts/ring.html has a link to '.*', which does not exist"):
        site_pages(Catalog(CATALOG.tracks, (CATALOG.concepts[0], broken), {}), {})


def test_links_to_items_and_to_other_sites_are_fine():
    linked = replace(
        RING,
        steps=(LessonStep("See [a](ops.html), [b](#card-held), [c](../index.html#map), [d](https://pytorch.org/x)."),),
    )
    site_pages(Catalog(CATALOG.tracks, (CATALOG.concepts[0], linked), {}), {})


def test_a_page_that_would_load_a_picture_or_has_an_id_twice_is_refused():
    with pytest.raises(UserError, match="would load a file"):
        check_links({"index.html": '<img src="x.png">'}, set())
    with pytest.raises(UserError, match="two places named 'a'"):
        check_links({"index.html": '<p id="a"><p id="a">'}, set())


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.txt, which is not of a site"):
        write_site(tmp_path, {"index.html": "new"})
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_site_is_replaced_and_what_it_no_longer_has_is_removed(tmp_path):
    folder = tmp_path / "a" / "site"
    write_site(folder, {"index.html": "old", "concepts/gone.html": "old"})
    write_site(folder, {"index.html": "new", "concepts/ring.html": "new"})
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {MARKER, "index.html", "concepts/ring.html"}
    assert (folder / "index.html").read_text() == "new"
    (folder / "concepts" / "mine.html").write_text("mine")
    with pytest.raises(UserError, match=r"concepts/mine\.html"):
        write_site(folder, {"index.html": "newer"})
    assert (folder / "index.html").read_text() == "new"


def test_links_in_the_folder_are_not_followed(tmp_path):
    folder, other = tmp_path / "site", tmp_path / "other.txt"
    other.write_text("mine")
    write_site(folder, {"index.html": "old"})
    (folder / "index.html").unlink()
    (folder / "index.html").symlink_to(other)
    with pytest.raises(UserError, match=r"holds the link index\.html"):
        write_site(folder, {"index.html": "new"})
    assert other.read_text() == "mine"


def test_a_card_stands_after_the_text_that_it_is_about():
    texts = ["The ring has two phases.", "Latency counts for small tensors.", "The result has the same bits."]
    cards = [
        replace(RING.cards[0], front="What does latency cost?", back="Much, for a small tensor."),
        replace(RING.cards[0], front="Which phases?", back="Two."),
        replace(RING.cards[0], front="xyzzy", back="plugh"),
    ]
    assert card_places(texts, cards) == [1, 0, 2]


def test_the_map_leaves_out_needs_that_follow_from_others():
    first, second, third = (
        replace(RING, id=name, needs=needs) for name, needs in (("a", ()), ("b", ("a",)), ("c", ("a", "b")))
    )
    every = {each.id: each for each in (first, second, third)}
    assert direct_needs(third, every) == ["b"]


def test_a_proof_shows_the_code_with_the_right_answer_in_it():
    questions = {question.id: question for question in RING.questions}
    bug = proof_text(sample(questions["bug"]))
    assert bug.code == snapshot("print(1)\ndist.all_reduce(x)")
    prints = proof_text(sample(questions["prints"]))
    assert (prints.code, prints.expected) == ("print(rank)", "[4.0]")
    sent = proof_text(sample(questions["sent"]))
    assert sent.what == snapshot("The demo allreduce --size 300 prints `bytes sent by the ring` on 4 ranks.")
    assert sent.expected == "1800"


def test_the_command_writes_the_site_with_the_recorded_runs(tmp_path):
    done = piped(tmp_path / "home", "site", tmp_path / "site")
    assert (done.returncode, done.stderr) == (0, "")
    written = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert written == {"index.html", "concepts/ddp.html", "concepts/ring.html", "runs/allreduce.html"}
    assert done.stdout.startswith("4 pages, ")
    again = piped(tmp_path / "home", "site", tmp_path)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.endswith("nothing was written; name a new or empty folder.\n")


def test_only_demos_with_a_recording_have_a_run():
    assert [*run_pages({"launch", "no-such-demo"})] == ["launch"]


def test_a_lesson_in_steps_has_its_questions_listings_and_outputs_inline_and_folds_more():
    listing = Listing(
        2,
        "print(rank)",
        Shows(by_rank={0: "0", 1: "1"}),
        LineChange("print(rank)", "1 / 0", Shows(raises="ZeroDivisionError")),
    )
    steps = (
        LessonStep("One.", listing, then="Two numbers."),
        LessonStep("Two.", ask=RING.questions[0].id),
        LessonStep("Three.", ask=RING.cards[0].id),
    )
    ring = replace(RING, steps=steps, more="A rare detail.")
    page = site_pages(Catalog(CATALOG.tracks, (CATALOG.concepts[0], ring), {}), {})["concepts/ring.html"]
    asked = f'data-question="{RING.questions[0].key}"'
    places = [
        page.index(text)
        for text in (
            *('id="step-1"', "print(rank)", "rank 0  0\nrank 1  1", "Two numbers.", "- print(rank)\n+ 1 / 0", "ZeroDivisionError"),
            *('id="step-2"', asked, 'id="step-3"', f'id="card-{RING.cards[0].id}"', "<summary>More</summary>", "A rare detail."),
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert page.count(asked) == 1
    assert "Question 1 " in page[page.index('id="step-2"') : page.index('id="step-3"')]


DRAWING = "Before.\n\n    0 -> 1\n\nAfter."
TABLE = DRAWING.replace("    0 -> 1", "```\n0 -> 1\n```")
FIGURE = '<figure class="picture"><svg>ring</svg></figure>'


@pytest.mark.parametrize(
    ("text", "order"),
    [
        (DRAWING, ["Before.", FIGURE, "After."]),
        (TABLE, ["Before.", "0 -&gt; 1", "After.", FIGURE]),
    ],
    ids=["in place of the drawing", "after a text with none that is indented"],
)
@pytest.mark.parametrize("where", ["a step", "more", "one text"])
def test_a_picture_stands_in_place_of_its_drawing_or_after_the_text(text, order, where):
    asking = LessonStep("One.", ask=RING.questions[0].id)
    concepts = {
        "a step": replace(RING, steps=(replace(asking, text=text, picture="ring"),)),
        "more": replace(RING, steps=(asking,), more=text, picture="ring"),
        "one text": replace(RING, steps=(LessonStep(text, picture="ring"),)),
    }
    known = Catalog(CATALOG.tracks, (CATALOG.concepts[0], concepts[where]), {})
    page = site_pages(known, {}, (), {"ring": "<svg>ring</svg>", "other": "<svg>other</svg>"})["concepts/ring.html"]
    places = [page.index(part) for part in order]
    assert places == sorted(places)
    assert page.count("<figure") == 1
    assert ("0 -&gt; 1" in page) == ("0 -&gt; 1" in order)
    assert "0 -&gt; 1" in site_pages(known, {})["concepts/ring.html"]


def test_the_shipped_pictures_are_on_the_pages_of_the_lessons_that_name_them(shipped):
    named = {}
    for concept in SHIPPED.concepts:
        names = [*filter(None, [concept.picture, *(step.picture for step in concept.steps)])]
        page = shipped[f"concepts/{concept.id}.html"]
        assert page.count("<figure") == len(names)
        assert all(picture_texts()[name] in page for name in names)
        named |= dict.fromkeys(names, concept.id)
    assert named.keys() == picture_texts().keys()
    style = asset("pictures.css")
    for name, svg in picture_texts().items():
        classes = {each for found in re.findall('class="([^"]+)"', svg) for each in found.split()}
        assert [each for each in classes if f".picture .{each} {{" not in style] == [], name
    assert re.findall(r"black|white|#000\b|#fff\b|#0{6}|#f{6}|url", style, re.IGNORECASE) == []
