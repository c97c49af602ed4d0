"""What the first users asked for: every subject of the five pages that they brought has its place in the curriculum.

A row names a page, a subject on it, and where it is taught and asked: `concept/id` is an item, `concept: words` are words
in that concept's lesson, commands, flags or mistakes.
"""

from collections import Counter

import pytest

from ddpquiz.curriculum.loading import load

CHEAT_SHEET, COMMANDS, DDP_CARDS, INTERVIEW, LARGE_MODELS = (
    "cheat sheet",
    "commands",
    "ddp cards",
    "interview",
    "large models",
)

SEEDS = [
    # cards
    (CHEAT_SHEET, "what distributed training is", ["why-distribute/what-distributed-training-is", "why-distribute/two-reasons", "why-distribute/two-needs"]),
    (CHEAT_SHEET, "two common strategies", ["why-distribute/data-or-model", "model-parallelism/what-it-means"]),
    (
        CHEAT_SHEET,
        "why synchronization matters",
        ["why-distribute/key-challenge", "sync-vs-async/two-prices", "data-parallelism/is-synchronising-necessary", "data-parallelism/why-replicas-stay-equal"],
    ),
    (CHEAT_SHEET, "the role of a parameter server", ["parameter-server/role", "parameter-server/pull-and-push"]),
    (CHEAT_SHEET, "how it helps with large datasets", ["why-distribute/large-dataset", "why-distribute/longer-dataset"]),
    # quick questions
    (CHEAT_SHEET, "its main goal", ["why-distribute/two-needs", "why-distribute/makes-it-fit"]),
    (CHEAT_SHEET, "which strategy splits the data", ["data-parallelism/what-differs", "parameter-server/not-a-split"]),
    (CHEAT_SHEET, "a key challenge", ["why-distribute/key-challenge", "why-distribute/waits-for-the-slowest", "data-parallelism/traffic-per-step", "why-distribute/compute-shrinks"]),
    (CHEAT_SHEET, "what a parameter server does", ["parameter-server/who-updates"]),
    (CHEAT_SHEET, "why use it for large datasets", ["why-distribute/longer-dataset", "data-parallelism/what-limits-scaling"]),
    # explain
    (CHEAT_SHEET, "explain data against model parallelism", ["data-parallelism/data-or-model"]),
    (CHEAT_SHEET, "describe why synchronize, and accuracy", ["data-parallelism/why-synchronise", "parameter-server/sync-server-equals"]),
    # practice, each with its mistakes
    (CHEAT_SHEET, "practice 1: its main purpose", ["why-distribute/two-needs"]),
    (CHEAT_SHEET, "practice 2: the call that initializes", ["process-group-init/which-call"]),
    (CHEAT_SHEET, "practice 3: what print(rank, world_size) prints", ["process-group-init/names-are-not-settings"]),
    (CHEAT_SHEET, "practice 4: world_size left out", ["process-group-init/rank-without-size", "process-group-init/arguments-or-variables"]),
    (CHEAT_SHEET, "practice 5: rank and size of four processes", ["process-group-init/rank-and-size-of-each", "process-group-init/order-of-a-script"]),
    (CHEAT_SHEET, "mistake: rank as a string", ['process-group-init: `rank=os.environ["RANK"]` fails with', "process-group-init/rank-and-size-of-each"]),
    (CHEAT_SHEET, "mistake: get_rank before init", ["process-group-init/rank-before-init", "process-group-init/seed-by-rank"]),
    (CHEAT_SHEET, "mistake: every process says rank 0", ["process-group-init: Two processes with the same rank.", "process-group-init/same-rank-twice"]),
    (CHEAT_SHEET, "mistake: hard-coded rank and size", ["process-group-init: Here is a script that someone copied from a tutorial", "process-group-init/groups-of-one"]),
    # when to use it
    (COMMANDS, "a dataset larger than memory", ["why-distribute/longer-dataset", "why-distribute: a large dataset is no reason to buy a second machine"]),
    (COMMANDS, "hours or days on one GPU", ["why-distribute/two-reasons"]),
    (COMMANDS, "speed up with several GPUs", ["why-distribute/twice-the-gpus", "why-distribute: Half the time?"]),
    (COMMANDS, "more complex models", ["data-parallelism/state-per-gpu", "why-distribute/growing-a-job"]),
    (COMMANDS, "resource usage", ["why-distribute/what-distributed-training-is", "why-distribute/compute-shrinks", "why-distribute/amdahl-on-n"]),
    # commands and flags
    (COMMANDS, "torch.distributed.launch", ["torchrun-launch/instead-of-launch", "torchrun-launch/what-launch-adds", "torchrun-launch: torch.distributed.launch"]),
    (COMMANDS, "what the launcher prints", ["torchrun-launch/lines-of-output", "torchrun-launch: torchrun --standalone --nproc-per-node=2"]),
    (COMMANDS, "--nproc_per_node", ["torchrun-launch: --nproc-per-node", "torchrun-launch/rank-on-a-node"]),
    (COMMANDS, "one rank started by hand", ["process-group-init/started-by-hand", "process-group-init: RANK=0 WORLD_SIZE=4"]),
    (COMMANDS, "--backend", ["backends/default-backends", "backends/rule-of-thumb"]),
    (COMMANDS, "--world_size", ["process-model/rank-and-world-size"]),
    (COMMANDS, "--rank", ["process-model/highest-rank"]),
    (COMMANDS, "--master_addr", ["process-group-init/the-four-variables"]),
    (COMMANDS, "--master_port", ["process-group-init/what-the-master-port-is"]),
    (COMMANDS, "the key concept", ["why-distribute/two-reasons"]),
    # the code example
    (COMMANDS, "set up, wrap, train, clean up", ["train-script: init_process_group", "train-script/order-of-a-step", "ddp-mechanics/wrap-before-init", "ddp-mechanics/prepare-a-script", "process-group-init/twice-and-destroy"]),
    (COMMANDS, "set_device from LOCAL_RANK", ["train-script/two-device-lines", "train-script/models-on-one-gpu", "process-model/local-rank", "torchrun-launch/index-of-my-gpu"]),
    (COMMANDS, "random tensors without a sampler", ["distributed-sampler/no-sampler", "train-script/kept-loader"]),
    (COMMANDS, "every rank prints its loss", ["ddp-mechanics: if every rank logs `loss.item()`", "all-reduce-ring/mean-of-losses"]),
    # mistakes and summary
    (COMMANDS, "mistake: wrong world_size or rank", ["process-group-init/one-never-comes", "process-group-init/one-comes-late"]),
    (COMMANDS, "mistake: wrong backend", ["backends/nccl-without-gpus", "backends/nccl-on-cpu"]),
    (COMMANDS, "mistake: wrong number of processes", ["backends/two-ranks-one-gpu", "torchrun-launch: How many workers?"]),
    (COMMANDS, "summary: variables that start processes", ["process-group-init/which-variables", "torchrun-launch/which-are-set"]),
    (COMMANDS, "summary: what DDP is for", ["ddp-mechanics/what-ddp-is"]),
    # cards
    (DDP_CARDS, "what DDP is", ["ddp-mechanics/what-ddp-is"]),
    (DDP_CARDS, "DDP instead of DataParallel", ["dataparallel-vs-ddp/process-or-thread", "dataparallel-vs-ddp/why-ddp-is-faster"]),
    (DDP_CARDS, "how DDP synchronizes", ["ddp-mechanics/when-gradients-travel", "ddp-mechanics/sum-or-mean"]),
    (DDP_CARDS, "the role of init_process_group", ["process-group-init/what-init-does"]),
    (DDP_CARDS, "what to do with the dataset", ["distributed-sampler/must-you", "distributed-sampler/what-it-does"]),
    # questions
    (DDP_CARDS, "what DDP primarily helps with", ["ddp-mechanics/rows-per-rank"]),
    (DDP_CARDS, "the function that initializes communication", ["process-group-init/which-call"]),
    (DDP_CARDS, "the purpose of DistributedSampler", ["distributed-sampler/no-sampler", "distributed-sampler/what-holds-by-default"]),
    (DDP_CARDS, "how model updates are synchronized", ["ddp-mechanics/which-call-sends", "ddp-mechanics/events-of-backward"]),
    (DDP_CARDS, "DDP compared to DataParallel", ["dataparallel-vs-ddp/how-many-processes", "dataparallel-vs-ddp/one-machine"]),
    # explain
    (DDP_CARDS, "explain how DDP trains", ["ddp-mechanics/how-ddp-works"]),
    (DDP_CARDS, "describe how to prepare a script", ["train-script/models-on-one-gpu", "ddp-mechanics/prepare-a-script"]),
    # notes
    (INTERVIEW, "each GPU holds the whole model", ["data-parallelism/what-each-rank-holds"]),
    (INTERVIEW, "each GPU gets other data", ["data-parallelism/what-differs", "distributed-sampler/which-samples"]),
    (INTERVIEW, "DataParallel: a master averages parameters", ["data-parallelism/what-is-averaged", "dataparallel-vs-ddp/summed-gradients"]),
    (INTERVIEW, "DDP: a master makes the weights", ["ddp-mechanics/step-on-rank-0", "process-model/no-master", "parameter-server/ddp-has-no-server"]),
    (INTERVIEW, "all-reduce as an algorithm", ["all-reduce-ring/operation-or-algorithm", "all-reduce-ring/operation-and-algorithms"]),
    (INTERVIEW, "DDP over DP any day", ["dataparallel-vs-ddp/what-the-docs-advise", "dataparallel-vs-ddp/one-machine"]),
    (INTERVIEW, "the learning rate on 4 nodes of 2 GPUs", ["lr-scaling/rate-on-eight-gpus", "lr-scaling/adam-on-more-gpus", "lr-scaling/what-k-is"]),
    (INTERVIEW, "the same rate per update", ["lr-scaling/why-linear", "lr-scaling/as-far-as-k-steps"]),
    (INTERVIEW, "a rough guideline", ["lr-scaling/limits-of-the-rule", "lr-scaling/largest-k"]),
    # interview questions
    (INTERVIEW, "1: what distributed data parallelism is", ["ddp-mechanics/rows-per-rank", "data-parallelism/order-of-one-step"]),
    (INTERVIEW, "2: how DDP works", ["ddp-mechanics/after-wrapping"]),
    (INTERVIEW, "3: its benefits", ["data-parallelism/state-per-gpu", "why-distribute/parameters-under-ddp", "global-batch-size/larger-batch-same-data"]),
    (INTERVIEW, "4: how to initialize", ["process-group-init/order-of-a-script", "ddp-mechanics/wrap-before-init"]),
    (INTERVIEW, "5: how gradients are synchronized", ["ddp-mechanics/sum-loss-ratio", "ddp-mechanics/sum-or-mean"]),
    (INTERVIEW, "6: uneven data", ["distributed-sampler/share-length", "distributed-sampler/how-many-repeats", "distributed-sampler/uneven-data"]),
    (INTERVIEW, "7: common issues", ["train-script/mock-data-test", "train-script/loader-share", "train-script/only-rank-0-evaluates", "ddp-mechanics/changed-replica", "ddp-pitfalls/unused-head", "ddp-mechanics/rank-0-evaluates", "parameter-server/age-of-a-gradient"]),
    (INTERVIEW, "8: monitoring, and barrier", ["train-script/number-for-the-log", "train-script/who-writes-the-log", "train-script/after-the-barrier", "train-script/monitor-a-job", "train-script: SummaryWriter", "collective-ops/barrier-carries-nothing", "debug-tooling/monitored-barrier", "debug-tooling/who-is-missing", "ddp-mechanics: if every rank logs `loss.item()`"]),
    # questions
    (LARGE_MODELS, "a network that does not fit", ["model-parallelism/why-it-fits", "model-parallelism/why-more-gpus-help", "training-memory/held-by-a-stage"]),
    (LARGE_MODELS, "what model parallelism means", ["model-parallelism/what-it-means", "model-parallelism/layers-held"]),
    (LARGE_MODELS, "the model size on each GPU", ["model-parallelism/not-split-at-all"]),
    (LARGE_MODELS, "a batch size against out-of-memory errors", ["training-memory/smaller-batch", "training-memory/filling-up", "model-parallelism/halve-the-batch"]),
    (LARGE_MODELS, "speed and accuracy", ["model-parallelism/time-on-four", "why-distribute/worse-after-the-move", "data-parallelism/what-breaks-equality"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def catalog():
    return load()


@pytest.mark.parametrize(("page", "subject", "places"), SEEDS, ids=[f"{page}: {subject}" for page, subject, _ in SEEDS])
def test_a_subject_that_was_asked_for_has_its_place(catalog, page, subject, places):
    assert places
    for place in places:
        concept, colon, words = place.partition(": ")
        if not colon:
            catalog.item(place)
            continue
        found = catalog.concept(concept)
        texts = [text for command in found.commands for text in (command.run, *command.flags)]
        texts += [mistake.do for mistake in found.mistakes]
        texts.append(" ".join(found.lesson.split()))
        assert any(words in text for text in texts), place


def test_no_subject_is_lost():
    assert Counter(page for page, _, _ in SEEDS) == {
        CHEAT_SHEET: 21, COMMANDS: 24, DDP_CARDS: 12, INTERVIEW: 17, LARGE_MODELS: 5
    }  # fmt: skip


def test_most_subjects_are_asked_and_not_only_told(catalog):
    questions = {question.key for question in catalog.questions()}
    asked = [row for row in SEEDS if questions & set(row[2])]
    assert len(asked) >= 0.7 * len(SEEDS)
