"""Words of the field that mean the same, in any of their forms, as `search` finds them."""

import pytest

from ddpquiz.curriculum.search import meaning, stem


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
        "synchronize synchronize synchronized synchronizing",
        "neighbor neighbor neighbors",
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
        "sync synchronize synchronized synchronization",
        "1,800 1800",
        "crashed died dies",
    ],
)
def test_synonyms_mean_the_same(words):
    assert len({meaning(word) for word in words.split()}) == 1


@pytest.mark.parametrize("words", ["worker work", "rank range", "node no", "less loss", "state step", "mean means man"])
def test_other_words_have_other_stems(words):
    assert len({stem(word) for word in words.split()}) >= 2
