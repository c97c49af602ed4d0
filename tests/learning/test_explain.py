"""The words of points in a text, and a sitting of explaining."""

from datetime import timedelta

import pytest
from sample import START, WHY_RING, Clock

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import Point, Prompt
from ddpquiz.curriculum.search import meaning, stem
from ddpquiz.learning.explain import ExplainAction, Opinion, Toggle, WriteLine, begin, check, order, step


@pytest.mark.parametrize(
    "forms",
    [
        "copy copies copied copying",
        "average averages averaged averaging",
        "wait waits waited waiting",
        "shard shards sharded sharding",
        "replicate replicates replicated replication",
        "communicate communicates communication",
        "run runs ran running",
        "send sends sent sending",
        "fill fills filled filling",
        "synchronise synchronize synchronised synchronizing",
        "neighbour neighbor neighbours",
        "idle idles idling",
        "equal equally",
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms):
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "words",
    [
        "copies replicas replicated",
        "gradients grads",
        "waiting stalled",
        "node host machines",
        "sync synchronise synchronized synchronization",
        "1,800 1800",
        "crashed died dies",
    ],
)
def test_synonyms_mean_the_same(words):
    assert len({meaning(word) for word in words.split()}) == 1


@pytest.mark.parametrize("words", ["worker work", "rank range", "node no", "less loss", "state step", "mean means man"])
def test_other_words_have_other_stems(words):
    assert len({stem(word) for word in words.split()}) >= 2


def prompt(*points):
    return Prompt("c", "p", "?", "", "", tuple(Point(f"point {number}", words) for number, words in enumerate(points)))


@pytest.mark.parametrize(
    ("word", "text", "occurs"),
    [
        ("copy", "Each rank holds COPIES.", True),
        ("copy", "the photocopy", False),
        ("copy", "", False),
        ("own samples", "each has its own sample", True),
        ("own samples", "each has its own. Samples differ", False),
        ("nobody waits", "and nobody waits", True),
        ("all-reduce", "gradients are all-reduced", True),
        ("all-reduce", "one allreduce", True),
        ("all-reduce", "dist.all_reduce(x)", True),
        ("all-reduce", "all of them reduce", False),
        ("nonblocking", "non-blocking calls", True),
        ("set_epoch", "sampler.set_epoch(0)", True),
        ("2(N-1)/N", "each sends 2 (n \N{MINUS SIGN} 1) / n of it", True),
        ("2(N-1)/N", "each sends 2(N-1) chunks", False),
        ("s = 0", "with s=0 it is synchronous", True),
        ("1.97", "a factor of 1.97.", True),
        ("1800", "it sends 1,800 bytes", True),
        ("112", "that makes 112GB", True),
        ("4 x 8", "a mesh of 4 x 8", True),
        ("ddp.module", "save ddp.module", True),
        ("rank 1", "rank 12 saves", False),
    ],
)
def test_a_point_is_ticked_where_one_of_its_words_occurs_in_any_form(word, text, occurs):
    (point,) = check(prompt(("elsewhere", word)), text)
    assert (point.made, point.words) == (occurs, (word,) * occurs)


def test_every_shipped_point_is_ticked_by_each_of_its_words():
    for concept in loading.load().concepts:
        for shipped in concept.explain:
            for place, point in enumerate(shipped.points):
                for word in point.words:
                    assert word in check(shipped, f"It is {word}.")[place].words, (shipped.key, word)


def test_an_opinion_ticks_the_points_instead_of_their_words():
    points = check(prompt(("copy",), ("shard",)), "a copy", Opinion((False, True)))
    assert [(point.made, point.words) for point in points] == [(False, ("copy",)), (True, ())]


@pytest.mark.parametrize("text", ["every rank waits and sends ", "copycopy", "copy ", "a.b, ", "\n", "1,1"])
def test_a_long_text_is_checked_in_time_that_grows_with_its_length(text, scale):
    """What grows with the square would go on for an hour with 400 kB, and for days with four megabytes."""
    many = prompt(*(("copy", f"rank {number} sends", "copy copy copy") for number in range(5)))
    assert len(check(many, text * (scale(400_000, 4_000_000) // len(text)))) == 5


def play(state, *events, clock=None):
    clock = clock or Clock()
    for event in events:
        state, _ = step(state, event, clock())
    return state


TEXT = WriteLine("A root's link is the bottleneck, and the other links idle.")


def test_points_are_matched_and_say_which_words_did_it():
    state = play(begin([WHY_RING], START), TEXT)
    assert [(point.words, point.made) for point in state.explanation.points] == [
        (("bottleneck",), True),
        (("idle",), True),
        ((), False),
    ]
    assert state.explanation.made == 2
    assert state.explanation.took == timedelta(seconds=4)


def test_the_learner_changes_each_tick_and_changes_it_back():
    state = play(begin([WHY_RING], START), TEXT, Toggle(2), Toggle(0))
    assert [point.made for point in state.explanation.points] == [False, True, True]
    assert [point.matched for point in state.explanation.points] == [True, True, False]
    assert play(state, Toggle(2), Toggle(0)).explanation.made == 2
    assert play(state, Toggle(3)) == state


def test_nothing_written_is_no_explanation():
    state = begin([WHY_RING], START)
    assert play(state, WriteLine(" \n ")) == state


def test_a_prompt_can_be_skipped_hinted_and_undone():
    state = play(begin([WHY_RING, WHY_RING], START), ExplainAction.HINT)
    assert state.hinted
    state = play(state, TEXT, ExplainAction.HINT, ExplainAction.SKIP)
    assert state.explanation.hinted
    state = play(state, ExplainAction.NEXT)
    assert (state.place, state.checking, state.hinted) == (1, False, False)
    state = play(state, ExplainAction.SKIP)
    assert state.prompt is None
    state = play(state, ExplainAction.UNDO)
    assert state.place == 1
    state = play(state, ExplainAction.UNDO)
    assert (state.place, state.checking, state.done) == (0, False, ())
    assert play(state, ExplainAction.STOP).prompt is None


def test_a_hint_stays_seen_when_the_learner_goes_back_and_skips_again():
    state = play(begin([WHY_RING, WHY_RING], START), ExplainAction.SKIP, ExplainAction.HINT, ExplainAction.UNDO)
    assert (state.place, state.hinted) == (0, False)
    state = play(state, ExplainAction.SKIP)
    assert (state.place, state.hinted) == (1, True)
    assert play(state, TEXT).explanation.hinted


def test_the_log_learns_what_was_added_changed_and_taken_back():
    written, change = step(begin([WHY_RING], START), TEXT, START)
    assert change == (written.done[0], None)
    overruled, change = step(written, Toggle(0), START)
    assert change == (overruled.done[0], written.done[0])
    assert step(overruled, ExplainAction.UNDO, START)[1] == (None, overruled.done[0])
    confirmed, change = step(overruled, ExplainAction.NEXT, START)
    assert change == (None, None)
    assert step(confirmed, ExplainAction.UNDO, START)[1] == (None, overruled.done[0])


def test_what_was_explained_least_comes_first():
    other = Prompt("ring", "other", "?", "", "", WHY_RING.points)
    assert order([WHY_RING, other], {}) == (WHY_RING, other)
    assert order([WHY_RING, other], {WHY_RING.key: 1}) == (other, WHY_RING)
