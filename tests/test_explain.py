"""Words in a text, and a sitting of explaining."""

from datetime import timedelta

import pytest
from sample import START, WHY_RING, Clock

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import Point, Prompt
from ddpquiz.curriculum.stems import meaning, stem
from ddpquiz.learning.explain import ExplainAction, Overrule, WriteLine, begin, judge, news, order, step
from ddpquiz.learning.words import Said


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


@pytest.mark.parametrize(
    ("phrase", "text", "signs"),
    [
        ("copy", "Each rank keeps a copy.", {True}),
        ("copy", "It is not a copy.", {False}),
        ("copy", "No rank makes a copy", {False}),
        ("copy", "It works without making any copies", {False}),
        ("copy", "Weights are never copied.", {False}),
        ("copy", "It doesn't copy the model", {False}),
        ("copy", "It doesn\N{RIGHT SINGLE QUOTATION MARK}t copy the model", {False}),
        ("copy", "They cannot copy it", {False}),
        ("copy", "a shard instead of a copy", {False}),
        ("copy", "a shard rather than a copy", {False}),
        ("copy", "not a shard but a copy", {True}),
        ("copy", "It is not a shard; it is a copy", {True}),
        ("copy", "It is not slow, each rank has a copy", {True}),
        ("copy", "No. A copy!", {True}),
        ("copy", "not only a copy", {True}),
        ("copy", "no matter how large the copy is", {True}),
        ("copy", "It never works without a copy", {True}),
        ("copy", "Not sharded and copied everywhere", {True}),
        ("copy", "It is not what you might at first sight call a copy", {True}),
        ("copy", "A copy is not needed", {False}),
        ("copy", "A second copy isn't ever required here", {False}),
        ("copy", "The copy does nothing", {False}),
        ("copy", "Such a copy has no effect", {False}),
        ("copy", "The copy is useless", {False}),
        ("copy", "There is no need for a copy", {False}),
        ("copy", "You do not have to make a copy", {False}),
        ("copy", "It doesnt need a copy", {False}),
        ("copy", "Each holds neither a shard nor a copy", {False}),
        ("copy", "It is used by each, never only a copy", {False}),
        ("copy", "Each has a copy and a master is not needed", {True}),
        ("copy", "With a copy the master is not needed", {True}),
        ("copy", "Copies do not wait for a master", {True}),
        ("copy", "What is not split must be a copy", {True}),
        ("copy", "Without a copy, no rank could begin", {True}),
        ("copy", "If you do not make a copy, all is lost", {True}),
        ("copy", "No rank begins until it has a copy", {True}),
        ("set_epoch", "You never call sampler.set_epoch(0)", {False}),
        ("process", "You never call init_process_group", {False}),
        ("all-reduce", "use no_sync to skip the all-reduce", {True}),
        ("no_sync", "with model.no_sync() on all but the last", {True}),
        ("own samples", "each on its own part of the samples", {True}),
        ("own samples", "its own weights and, in a step, samples", set()),
        ("rank 0", "each rank puts 0", set()),
        ("copy", "This is a copy, that is not a copy", {True, False}),
        ("copy", "the photocopy", set()),
        ("copy", "", set()),
        ("no master", "There is no master here", {True}),
        ("master", "There is no master here", {False}),
        ("nobody waits", "and nobody waits", {True}),
        ("all-reduce", "gradients are all-reduced", {True}),
        ("all-reduce", "one allreduce", {True}),
        ("all-reduce", "dist.all_reduce(x)", {True}),
        ("all-reduce", "all of them reduce", set()),
        ("nonblocking", "non-blocking calls", {True}),
        ("every rank", "on every. Rank 0 waits", set()),
        ("every rank", "it is on every, rank by rank", {True}),
        ("2(N-1)/N", "each sends 2 (n \N{MINUS SIGN} 1) / n of it", {True}),
        ("2(N-1)/N", "each sends 2(N-1) chunks", set()),
        ("s = 0", "with s=0 it is synchronous", {True}),
        ("1.97", "a factor of 1.97.", {True}),
        ("1800", "it sends 1,800 bytes", {True}),
        ("112", "that makes 112GB", {True}),
        ("4 x 8", "a mesh of 4 x 8", {True}),
        ("0 8 16 24", "ranks 0, 8, 16, 24", {True}),
        ("ddp.module", "save ddp.module", {True}),
    ],
)
def test_a_phrase_is_found_in_any_form_and_a_denied_one_is_known_as_such(phrase, text, signs):
    assert Said(text).signs(phrase) == signs


def made(say, words, text):
    prompt = Prompt("c", "p", "?", "", (Point(say, tuple(words)),))
    return judge(prompt, text)[0].made


@pytest.mark.parametrize(
    ("say", "text", "is_made"),
    [
        ("every rank holds a copy", "each one has its copy", True),
        ("every rank holds a copy", "nobody has a copy", False),
        ("there is no copy at all", "nobody has a copy", True),
        ("there is no copy at all", "each one has its copy", False),
        ("it is not slower, with a copy on each", "a copy on each", True),
        ("it does not help to share", "there is no copy", True),
    ],
)
def test_a_point_is_made_with_the_sign_that_it_has_itself(say, text, is_made):
    assert made(say, ["copy"], text) is is_made


def test_every_shipped_point_is_made_by_its_own_words():
    for concept in loading.load().concepts:
        for prompt in concept.explain:
            for point in prompt.points:
                for word in point.words:
                    assert Said(f"It is {word}.").signs(word) == {True}, (prompt.key, word)


def test_every_shipped_point_is_made_by_its_own_text():
    for concept in loading.load().concepts:
        for prompt in concept.explain:
            for place, point in enumerate(prompt.points):
                assert judge(prompt, f"{point.say}.")[place].made, (prompt.key, point.say)


SCRIPT = "ddp-mechanics/prepare-a-script"
HOW = "ddp-mechanics/how-ddp-works"


WRONG = (
    "You never call init_process_group. A DistributedSampler is not needed and set_epoch does nothing. All ranks use "
    "cuda:0. You wrap the optimizer in DDP, not the model, and every rank must write the checkpoint, never only rank 0. "
    "Start it with python train.py, not torchrun."
)
RIGHT = (
    "Launch with torchrun, not python train.py. Set the device from LOCAL_RANK instead of cuda:0. Wrap the model in DDP, "
    "not the optimizer. Without a DistributedSampler every rank would read the same samples; if you do not call "
    "set_epoch, the order never changes. Only rank 0 saves, the others do not."
)
PARAPHRASE = "DDP copies the model to each GPU. Each rank reads another part of the data."
DENYING = "Hooks do not wait for the end of backward, and no rank is the master."


@pytest.mark.parametrize(
    ("key", "text", "verdicts"),
    [
        (SCRIPT, WRONG, [False] * 5),
        (SCRIPT, RIGHT, [True] * 5),
        (HOW, PARAPHRASE, [True, False, False, False, False]),
        (HOW, DENYING, [False, False, True, False, True]),
    ],
)
def test_what_is_wrong_in_every_sentence_makes_no_point_and_what_is_right_does(key, text, verdicts):
    prompt = loading.load().item(key)
    assert [point.made for point in judge(prompt, text)] == verdicts


def test_most_of_what_a_point_says_in_one_sentence_makes_it():
    say = "the optimizer of each rank steps on its own"
    assert made(say, ["local"], "Every optimizer steps by itself, on its own rank.")
    assert not made(say, ["local"], "No optimizer steps by itself, on its own rank.")
    assert not made(say, ["local"], "The optimizer is last. It steps. Its own state is kept on the rank.")


def test_what_comes_after_a_denied_word_of_the_point_does_not_make_it():
    words = ("broadcast", "rank 0", "start", "initial")
    prompt = Prompt("c", "p", "?", "", (Point("wrapping broadcasts rank 0's weights, so all start equal", words),))

    def made(text):
        return judge(prompt, text)[0].made

    assert not made("Wrapping does not broadcast rank 0's weights, so ranks start different.")
    assert made("The weights start equal. Wrapping does not broadcast anything later.")
    assert made("It does not broadcast gradients but rank 0's weights.")
    assert made("Wrapping broadcasts rank 0's weights, which nobody else does not have.")


def test_a_missed_point_tells_what_was_said_the_other_way_round_and_what_was_not_found():
    prompt = Prompt("c", "p", "?", "", (Point("each rank holds a copy", ("copy", "replica", "duplicate")),))
    (point,) = judge(prompt, "There are no Replicas here.")
    assert (point.words, point.contrary, point.absent) == ((), ("Replicas",), ("duplicate",))
    (point,) = judge(prompt, "There are Replicas here, never copies of a shard.")
    assert (point.words, point.made) == (("Replicas",), True)


def play(state, *events, clock=None):
    clock = clock or Clock()
    for event in events:
        state = step(state, event, clock())
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


def test_the_learner_overrules_each_point_and_takes_that_back():
    state = play(begin([WHY_RING], START), TEXT, Overrule(2), Overrule(0))
    assert [point.made for point in state.explanation.points] == [False, True, True]
    assert [point.matched for point in state.explanation.points] == [True, True, False]
    assert play(state, Overrule(2), Overrule(0)).explanation.made == 2
    assert play(state, Overrule(3)) == state


def test_nothing_written_is_no_explanation():
    state = begin([WHY_RING], START)
    assert play(state, WriteLine(" \n ")) == state


def test_a_prompt_can_be_skipped_hinted_and_undone():
    state = play(begin([WHY_RING, WHY_RING], START), ExplainAction.HINT)
    assert state.hinted
    state = play(state, TEXT, ExplainAction.HINT, ExplainAction.SKIP)
    assert state.explanation.hinted
    state = play(state, ExplainAction.NEXT)
    assert (state.place, state.judged, state.hinted) == (1, False, False)
    state = play(state, ExplainAction.SKIP)
    assert state.prompt is None
    state = play(state, ExplainAction.UNDO)
    assert state.place == 1
    state = play(state, ExplainAction.UNDO)
    assert (state.place, state.judged, state.done) == (0, False, ())
    assert play(state, ExplainAction.STOP).prompt is None


def test_the_log_learns_what_was_added_changed_and_taken_back():
    start = begin([WHY_RING], START)
    written = play(start, TEXT)
    overruled = play(written, Overrule(0))
    assert news(start, written) == (written.done[0], None)
    assert news(written, overruled) == (overruled.done[0], written.done[0])
    assert news(overruled, play(overruled, ExplainAction.UNDO)) == (None, overruled.done[0])
    assert news(written, play(written, ExplainAction.NEXT)) == (None, None)


def test_what_was_explained_least_comes_first():
    other = Prompt("ring", "other", "?", "", WHY_RING.points)
    assert order([WHY_RING, other], {}) == (WHY_RING, other)
    assert order([WHY_RING, other], {WHY_RING.key: 1}) == (other, WHY_RING)
