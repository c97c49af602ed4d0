"""The guided path of `ddpquiz learn`: what the log says about its stages, its screen, and a path in a real terminal."""

from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from progress_histories import everything, exported, import_text
from run_program import ddpquiz, log, piped, sample
from sample import CARDS, DDP, RING, START, answer_row
from sample_sittings import NotedRanks, context, press, screen, studying

from ddpquiz.curriculum.catalog import Catalog, LabTitle
from ddpquiz.curriculum.concept import DemoLink
from ddpquiz.errors import UserError
from ddpquiz.learning.guided_path import StageName, guided_path, load_history, next_path, pick_track, route
from ddpquiz.learning.log_rows import LabRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.terminal.sittings.path_screen import PathScreen
from ddpquiz.terminal.sittings.rank_runner import DemoOutcome

DAY = study_day(START)
NO_TIME = START - START
PREDICTED = replace(RING, demos=(DemoLink("collectives", "it"), DemoLink("allreduce", "the bytes", predict="bytes")))
LABS = [LabTitle("slow-ring", "ring", "A slow ring", 40), LabTitle("fast-ring", "ring", "A fast ring", 20)]


def path(progress, concept=PREDICTED, labs=LABS):
    return guided_path(concept, labs, load_history(progress, DAY))


def states(progress, concept=PREDICTED, labs=LABS):
    return {str(each.stage): str(each.state) for each in path(progress, concept, labs).stages}


def test_a_stage_is_left_out_where_a_concept_has_nothing_for_it(progress):
    assert [*states(progress)] == ["lesson", "prediction", "demo", "cards", "questions", "lab"]
    assert [*states(progress, RING)] == ["lesson", "demo", "cards", "questions", "lab"]
    assert [*states(progress, DDP)] == ["lesson", "cards", "questions"]
    assert [*states(progress, replace(DDP, cards=(), questions=()))] == ["lesson"]
    assert path(progress).demo.run == "allreduce"  # the one that is predicted
    assert path(progress).place(StageName.DEMO) == "3 of 6: demo"
    assert path(progress).lab.id == "fast-ring"


def test_what_was_done_elsewhere_counts_and_what_was_skipped_can_still_be_done(progress):
    progress.stage("ring/lesson", "done", START)
    progress.stage("ring/prediction", "skipped", START)
    progress.stage("ring/lab", "skipped", START)
    assert path(progress).current.stage is StageName.DEMO
    progress.answer(answer_row("ring/bytes", 0.0), START)
    progress.answer(answer_row("ring/phases", 0.0), START)
    for card in RING.cards[:-2]:
        progress.review(card.key, Grade.AGAIN, START, NO_TIME)
    progress.suspend(RING.cards[-1].key, START)
    left = {each.stage: each.left for each in path(progress).stages}
    assert (left[StageName.CARDS], left[StageName.QUESTIONS]) == (1, 1)
    assert states(progress) == {
        "lesson": "done", "prediction": "done", "demo": "open", "cards": "open", "questions": "open", "lab": "skipped",
    }  # fmt: skip
    progress.review(RING.cards[-2].key, Grade.GOOD, START, NO_TIME)
    progress.answer(answer_row("ring/steps", 1.0), START)
    progress.lab(LabRow(item="ring/fast-ring", passed=True), START)
    receipt = progress.stage("ring/demo", "done", START)
    assert set(states(progress).values()) == {"done"}
    assert path(progress).lab.id == "slow-ring"  # the one that is left
    progress.undo(receipt, START)
    assert path(progress).current.stage is StageName.DEMO


def test_a_card_that_a_wrong_answer_made_due_was_not_seen_yet(progress):
    progress.answer(answer_row("ring/bytes", 0.0, made_due_card="ring/one"), START)
    assert next(each.left for each in path(progress).stages if each.stage is StageName.CARDS) == len(RING.cards)


def test_it_goes_on_with_the_path_followed_last_then_with_the_next_concept(progress):
    def following():
        found = next_path((RING, DDP), (), load_history(progress, DAY))
        return found and found.concept.id

    assert following() == "ring"
    progress.stage("ddp/lesson", "done", START)
    assert following() == "ddp"
    progress.stage("ring/lesson", "done", START)
    assert following() == "ring"
    progress.stage("ddp/lesson", "done", START)  # once more
    assert following() == "ddp"
    progress.stage("ring/demo", "done", START)  # as a prediction elsewhere leaves it
    assert following() == "ddp"
    for stage in ("cards", "questions"):
        progress.stage(f"ddp/{stage}", "skipped", START)
    assert following() == "ring"
    for stage in ("lesson", "demo", "cards", "questions"):
        progress.stage(f"ring/{stage}", "skipped", START)
    assert following() is None


def test_the_way_leads_along_the_core_route_then_the_tracks_that_were_picked_then_the_others(progress):
    rings = [replace(RING, id=name, track=track) for name, track in [("a", "x"), ("b", "y"), ("c", "y"), ("d", "z")]]
    known = Catalog((), (replace(RING, id="core"), *rings), {}, core=("core",))

    def names():
        return [concept.id for concept in route(known, load_history(progress, DAY))]

    assert names() == ["core", "a", "b", "c", "d"]
    pick_track(progress, "y", START)
    pick_track(progress, "mine/z", START)  # of a pack that is gone
    assert names() == ["core", "b", "c", "a", "d"]
    pick_track(progress, "z", START)
    assert names() == ["core", "d", "b", "c", "a"]
    pick_track(progress, "y", START)
    assert names() == ["core", "b", "c", "d", "a"]
    assert load_history(progress, DAY).last == ""
    assert "x" not in progress.concepts()


def test_a_lesson_that_was_left_out_does_not_hold_up_the_next_one(progress):
    def following():
        return next_path(known, (), load_history(progress, DAY)).concept.id

    known = tuple(replace(RING, id=name) for name in "abc")
    progress.stage("a/demo", "done", START)  # as a prediction elsewhere leaves it
    assert following() == "a"
    progress.stage("a/lesson", "done", START)
    progress.stage("c/lesson", "done", START)
    assert following() == "c"
    for stage in ("demo", "cards", "questions"):
        progress.stage(f"c/{stage}", "skipped", START)
    assert following() == "b"  # and not the rest of a


def test_learn_goes_on_with_a_track_that_is_named_and_remembers_it(home):
    said = ddpquiz("learn", "--track", "sharding", home=home).wait("ZeRO, stages 1, 2 and 3")
    assert "1 of " in said
    with Progress(home) as progress:
        assert load_history(progress, DAY).tracks == ("sharding",)
    wrong = piped(home, "learn", "ring", "--track", "collectives")
    assert (wrong.returncode, "name a concept or a track, not both" in wrong.stderr) == (2, True)
    unknown = piped(home, "learn", "--track", "colectives")
    assert (unknown.returncode, unknown.stderr) == (1, "There is no track `colectives`; tracks are collectives.\n")
    for concept in ("ring", "ddp"):
        for stage in ("lesson", "prediction", "demo", "cards", "questions", "lab"):
            with Progress(home) as progress:
                progress.stage(f"{concept}/{stage}", "skipped", START)
    done = piped(home, "learn", "--track", "collectives")
    assert done.stderr.startswith("You have finished the track collectives.")


def test_stages_are_exported_imported_and_kept_and_a_state_that_is_not_known_does_not_count(progress, tmp_path):
    progress.stage("ring/lesson", "done", START)
    with Progress(tmp_path / "other") as other:
        assert import_text(other, exported(progress)) == 1
        assert everything(other) == everything(progress)
        assert states(other)["lesson"] == "done"
        other.stage("ring/demo", "postponed", START)
        assert states(other)["demo"] == "open"


class NotedRuns(NotedRanks):
    """Notes which demos are run, and for which concept; `outcome` is what comes of them."""

    def __init__(self):
        super().__init__()
        self.outcome = DemoOutcome("✗ You predicted 1. The run showed 2.", was_predicted=True, ended_well=True)

    def demo(self, link, how):
        self.started.append((how.about, link.run, how.predict))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class NotingPath(PathScreen):
    """Notes what its stages start."""

    @property
    def seen(self):
        return [*self.context.ranks.started, *self.context.opened]

    def ask_cards(self):
        self.context.ranks.started.append(("study", self.path.concept.id))

    def ask_questions(self, count):
        self.context.ranks.started.append(("test", self.path.concept.id, count))


def following(progress, concept=PREDICTED):
    session = context(progress, concepts=(concept, DDP), labs=LABS)
    session.ranks = NotedRuns()
    return NotingPath(session, concept)


def test_it_leads_from_the_lesson_through_the_stages_and_each_can_be_skipped(progress, monkeypatch):
    monkeypatch.delenv("DDPQUIZ_HOME")  # so that labs lie in the home folder
    seat = following(progress)
    assert screen(seat).startswith("1 of 6: lesson\n\nThe ring\ncollectives · ring\n")
    assert screen(seat).endswith("\nenter go on · s skip · esc stages · ? help")
    press(seat, "enter")
    assert seat.seen == [("ring", "allreduce", True)]
    progress.answer(answer_row("ring/bytes", 0.0), START)  # as the prediction is saved
    seat = following(progress)
    assert screen(seat) == (
        snapshot(
            """\
The ring
│ An idea.

1 lesson      ✓ done  why, how, real commands, mistakes
2 prediction  ✓ done  what will the demo allreduce show?
3 demo        ✓ done  allreduce, on real ranks
4 cards       ▸ next  4 cards
5 questions           2 questions
6 lab                 A fast ring, about 20 minutes, in ~/ddpquiz-labs/

Next is stage 4 of 6: cards.

enter cards · s skip · 1-6 stage · n next lesson · / look up · ? help · q quit\
"""
        )
    )
    press(seat, "enter", "s", "enter", "s", "enter", "s")
    assert seat.seen == [("study", "ring"), ("test", "ring", 2), ("fast-ring", "6 of 6: lab")]
    shown = screen(seat)
    assert "6 lab         skipped  A fast ring" in shown
    assert "This concept is finished." in shown
    assert "enter next lesson · 1-6 stage" in shown.replace("n next lesson", "enter next lesson")
    press(seat, "1")
    assert screen(seat).startswith("1 of 6: lesson")
    press(seat, "enter")  # read once more: nothing is opened after it
    assert seat.seen == [("study", "ring"), ("test", "ring", 2), ("fast-ring", "6 of 6: lab")]
    press(seat, "n")
    assert screen(seat).startswith("1 of 3: lesson\n\nDDP\n")


@pytest.mark.parametrize(
    ("visit", "stage", "said"),
    [
        (DemoOutcome("", was_predicted=False, ended_well=True), "4 of 6: cards", ""),
        (DemoOutcome("", was_predicted=False, ended_well=False), "3 of 6: demo", "did not run to its end"),
        (DemoOutcome("gone", was_predicted=True, ended_well=False), "2 of 6: prediction", "did not run to its end"),
        (None, "2 of 6: prediction", ""),
        (UserError("no torch"), "2 of 6: prediction", "no torch"),
    ],
)
def test_a_stage_is_done_only_if_it_went_to_its_end(progress, visit, stage, said):
    progress.stage("ring/lesson", "done", START)
    seat = following(progress)
    seat.context.ranks.outcome = visit
    shown = screen(press(seat, "enter"))
    assert f"Next is stage {stage}" in shown
    assert said in shown


def test_the_rest_of_a_lesson_can_be_skipped_and_a_lesson_that_was_read_stays_read(progress):
    seat = following(progress)
    press(seat, "s")
    assert (states(progress)["lesson"], seat.seen) == ("skipped", [("ring", "allreduce", True)])
    press(seat, "1", "enter")
    assert states(progress)["lesson"] == "done"
    press(seat, "1", "s")
    assert states(progress)["lesson"] == "done"


def test_the_labs_of_a_path_say_how_many_are_built_and_which_is_next(progress):
    progress.lab(LabRow(item="ring/fast-ring", passed=True), START)
    progress.stage("ring/lesson", "done", START)
    seat = following(progress)
    assert "6 lab         ✓ done  1 of 2 passed; another: A slow ring, about 40 minutes" in screen(seat)


def test_a_pipe_gets_the_lesson_and_the_stages(home):
    done = piped(home, "learn", "ddp")
    assert done.stdout.startswith("DDP\n")
    assert done.stdout.endswith(
        "Step by step\n"
        "  1 lesson     ▸ next  why, how, real commands, mistakes\n"
        "  2 cards              2 cards\n"
        "  3 questions          2 questions\n"
    )
    assert piped(home, "learn").stdout.startswith("The ring\n")
    assert "Step by step" not in piped(home, "learn", "ddp", "--lesson").stdout


def test_cards_and_questions_say_where_one_is_and_the_path_goes_on_where_it_was_left(home):
    terminal = sample(home, "learn", "ddp", width=100)
    terminal.wait("1 of 3: lesson")
    terminal.press("\r", "2 of 3: cards · .*Card 1/2")
    terminal.press(" ", "good")
    terminal.press("3", "Card 2/2")
    terminal.press("q", "2 cards, 1 not seen yet")
    terminal.press("q")
    assert terminal.end() == 0
    assert "Next is stage 2 of 3: cards. Go on with ddpquiz learn ddp." in " ".join(" ".join(terminal.lines).split())
    terminal = sample(home, "learn")
    terminal.wait("▸ next  2 cards, 1 not seen yet")
    terminal.press("s", "Next is stage 3 of 3: questions")
    terminal.press("\r", "3 of 3: questions · Question 1/2")
    terminal.press("\x03", "stopped")
    terminal.press("s", "This concept is finished")
    terminal.press("\r", "1 of 4: lesson")
    terminal.press("\x1b", "The ring", "▸ next  why")
    terminal.press("q")
    assert terminal.end() == 0
    assert [(kind, item) for kind, item, *_ in log(home)] == [
        ("stage", "ddp/lesson"), ("review", "ddp/one"), ("stage", "ddp/cards"), ("stage", "ddp/questions"),
    ]  # fmt: skip


def test_a_real_path_with_a_run_in_its_lesson_and_a_lab(tmp_path):
    terminal = ddpquiz("learn", "sync-vs-async", home=tmp_path, DDPQUIZ_LABS=str(tmp_path / "labs"))
    terminal.wait("Lesson, step 1 of 8")
    terminal.press("s", "step 2 of 8")
    terminal.press("s", "step 3 of 8")
    terminal.press("\r", "Choose one")
    terminal.press("1", r"rate limit \(age 3\) +0.445", "(✓ right|✓ yours)", "enter next step")  # after the demo ran
    terminal.press("\r", "step 4 of 8")
    for step in (5, 6, 7, 8):
        terminal.press("s", f"step {step} of 8")
    terminal.press("s", "Question 1/1 · once more", "You missed this question in the lesson")
    done = terminal.press("s", "2 cards +▸ next", r"This lesson has \d+ new cards")
    assert "You can now" not in done  # most of its steps were skipped
    terminal.press("m", "Synchronous.* · more")
    terminal.press("\x1b", "2 cards +▸ next")
    terminal.press("t", r"Question 1/\d+ · easy · Synchronous")
    terminal.press("q", "2 cards +▸ next", "1-3 stage · n next lesson · t test")
    assert "come next" not in terminal.press("s", "Next is stage 3 of 3")
    terminal.press("\r", "^3 of 3: lab", "is still to be written")
    terminal.press("q", "Next is stage 3 of 3: lab")
    terminal.press("q")
    assert terminal.end() == 0
    stages = [item for kind, item, *_ in log(tmp_path) if kind == "stage"]
    assert "sync-vs-async/step-2" in stages


def test_cards_in_a_path_do_not_send_the_learner_to_that_path(progress):
    for number in range(8):
        progress.answer(answer_row(f"ring/q{number}", 0.0), START)
    seat = studying(progress, CARDS)
    assert "Worth reading" in screen(press(seat, "q"))
    seat.context.place = "4 of 6: cards"
    assert "Worth reading" not in screen(seat)
