"""Study, undo, quit, resume, answer, import and rebuild, in any order, on a real file, against a naive model."""

import tempfile
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sample import BYTES, CARDS, RING_CARDS, wrong_answer
from sample_sittings import context

from ddpquiz.learning import study
from ddpquiz.learning.answers import save_answer
from ddpquiz.learning.judge import Verdict
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Memory, Schedule, Weights, study_day
from ddpquiz.terminal.sittings.study_screen import StudyScreen

TOOK = timedelta(seconds=3)
LINKED = [replace(card, proof=BYTES.id) for card in RING_CARDS]  # so that a wrong answer may make any of them due
WEIGHTS = [Weights(), Weights(retention=0.8)]


class Learner(RuleBasedStateMachine):
    """The model is a list of what was done, with a mark on what was undone, and what follows from it, counted anew."""

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.at = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
        self.progress = Progress(self.home / "here")
        self.other = Progress(self.home / "there")
        self.model = []  # of this machine: [at, kind, item, value, weights, counts?]
        self.theirs = []  # of the other one, before it was taken in
        self.seat, self.since = None, 0  # where the model stood when the sitting began
        self.sit()

    def teardown(self):
        if hasattr(self, "folder"):
            self.progress.close()
            self.other.close()
            self.folder.cleanup()

    def clock(self):
        self.at += TOOK
        return self.at

    @property
    def weights(self):
        return self.progress.weights()

    def note(self, kind, item, value=None):
        self.model.append([self.at, kind, item, value, self.weights, True])

    # what the learner does

    @rule()
    def sit(self):
        """Quit, wherever the sitting stands, and begin another one."""
        day = study_day(self.clock())
        memories, hidden, earlier = self.progress.memories(), self.progress.hidden(day), self.progress.grades(day)
        chosen = study.choose_cards(
            CARDS, memories, day, study.QueueRules(limit=4, new=2, hidden=hidden, earlier=earlier)
        )
        begun = study.begin(chosen, memories, Schedule(self.weights), self.at)
        self.seat = StudyScreen(context(self.progress, self.clock, concepts=()), begun)
        self.since = len(self.model)

    @precondition(lambda self: self.seat.sitting.card)
    @rule(grade=st.sampled_from(Grade))
    def grade(self, grade):
        card = self.seat.sitting.card.key
        self.seat.handle_key("space") if not self.seat.sitting.shown else None
        self.seat.handle_key(str(int(grade)))
        self.note("review", card, grade)

    @precondition(lambda self: self.seat.sitting.card)
    @rule(key=st.sampled_from("xb"))
    def hide(self, key):
        card = self.seat.sitting.card.key
        self.seat.handle_key(key)
        self.note("suspend" if key == "x" else "bury", card)

    @precondition(lambda self: self.seat.sitting.card)
    @rule()
    def skip(self):
        self.seat.handle_key("s")

    @rule()
    def undo(self):
        before = len(self.seat.sitting.done)
        self.seat.handle_key("u")
        if len(self.seat.sitting.done) < before:
            mine = [row for row in self.model[self.since :] if row[5] and row[1] in ("review", "suspend", "bury")]
            mine[-1][5] = False

    @rule(card=st.sampled_from(CARDS))
    def restore(self, card):
        """What comes back is asked from the next sitting on."""
        day = study_day(self.clock())
        hidden = card.key in self.hidden(day)
        assert self.progress.restore(card.key, self.at) == hidden
        for row in self.model:
            if row[2] == card.key and (row[1] == "suspend" or (row[1] == "bury" and study_day(row[0]) >= day)):
                row[5] = False
        self.sit()

    @rule(right=st.booleans())
    def answer(self, right):
        day = study_day(self.clock())
        has_made_due = any(row.made_due_card and row.day == str(day) for row in self.progress.entries("answer"))
        kept = save_answer(self.progress, replace(wrong_answer(BYTES, self.at), verdict=Verdict(right=right)), LINKED)
        offered = {card.key for card in LINKED} - self.hidden(day)
        assert (
            (kept.made_due_card in offered)
            if offered and not right and not has_made_due
            else kept.made_due_card is None
        )
        self.note("answer", BYTES.key, kept.made_due_card)

    @rule(weights=st.sampled_from(WEIGHTS))
    def aim(self, weights):
        """Aim at another retention, as `study --retention` does before it deals."""
        self.progress.use_weights(weights, self.clock())
        assert self.weights == weights
        self.sit()

    @rule(hours=st.integers(-30, 24 * 20))
    def wait(self, hours):
        """Let time go by; a clock may also be set back."""
        self.at += timedelta(hours=hours)

    # what comes from elsewhere

    @rule(card=st.sampled_from(CARDS), grade=st.sampled_from(Grade), hours=st.integers(-100, 100))
    def study_there(self, card, grade, hours):
        at = self.at + timedelta(hours=hours, seconds=1)  # never at a moment of ours: names made by chance would decide
        self.other.review(card.key, grade, at, TOOK)
        self.theirs.append([at, "review", card.key, grade, Weights(), True])

    @rule()
    def take_in(self):
        count = self.progress.merge(self.other.log(), {Weights(): ""})
        assert count == len(self.theirs)
        assert self.progress.merge(self.other.log(), {Weights(): ""}) == 0
        self.model[: self.since] = [*self.theirs, *self.model[: self.since]]
        self.since += len(self.theirs)
        self.theirs = []
        self.sit()

    @rule()
    def rebuild(self):
        before = self.bytes()
        self.progress.rebuild()
        assert self.bytes() == before

    @rule()
    def crash(self):
        """Begin again from the file alone."""
        self.progress.close()
        self.progress = Progress(self.home / "here")
        self.sit()

    # what must hold

    @invariant()
    def the_file_says_what_the_model_says(self):
        if not hasattr(self, "progress"):
            return
        assert self.progress.memories() == self.memories()
        for day in {study_day(self.at), study_day(self.at) + timedelta(days=1)}:
            assert self.progress.hidden(day) == self.hidden(day)
        assert len(self.progress.entries("review")) == sum(row[5] and row[1] == "review" for row in self.model)

    @invariant()
    def a_sitting_knows_what_the_file_knows_of_its_cards(self):
        if not hasattr(self, "seat") or self.seat is None or not self.in_order():
            return
        made_due = {row[3] for row in self.model[self.since :] if row[1] == "answer"}
        for card in self.seat.sitting.chosen.cards:
            if card.key not in made_due:
                assert self.seat.sitting.memory(card) == self.progress.memories().get(card.key)

    def in_order(self):
        """Whether what the sitting did comes last in the log: not where a clock was set back, or another one is ahead.

        The log then puts it before what the sitting began with, which no sitting can know.
        """
        before = [row[0] for row in self.model[: self.since]]
        times = (
            [max(before), *(row[0] for row in self.model[self.since :])] if before else [row[0] for row in self.model]
        )
        return times == sorted(times)

    def bytes(self):
        return repr(self.progress._database.execute("SELECT * FROM card ORDER BY item").fetchall()).encode()

    def memories(self):
        """Count anew what is known of each card, by the order of time."""
        found: dict[str, Memory] = {}
        for at, kind, item, value, weights, counts in sorted(self.model, key=lambda row: row[0]):
            day: date = study_day(at)
            if counts and kind == "review":
                found[item] = Schedule(weights).review(item, found.get(item), value, day)
            elif counts and kind == "answer" and value:
                old = found.get(value)
                found[value] = (
                    Memory(day)
                    if old is None
                    else Memory(
                        min(day, old.due), old.stability, old.difficulty, old.first, old.last, old.reps, old.lapses
                    )
                )
        return found

    def hidden(self, day):
        return {
            row[2]
            for row in self.model
            if row[5] and (row[1] == "suspend" or (row[1] == "bury" and study_day(row[0]) >= day))
        }


TestLearner = Learner.TestCase
TestLearner.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
