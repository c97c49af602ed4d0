"""Proofs on real ranks: they hold for the key, and for no other answer."""

import dataclasses
from pathlib import Path

import passed
import pytest

from ddpquiz.curriculum.concept import (
    CodeProof,
    DemoProof,
    Kind,
    Level,
    Line,
    Listing,
    Option,
    Question,
    Shows,
    Trap,
    Variable,
)
from ddpquiz.ranks.content_check import prove_all
from ddpquiz.ranks.content_runner import STILL, begin_own_version, run_code

pytestmark = passed.ENGINE


def question(kind=Kind.CHOICE, **more):
    return Question("c", "q", Level.EASY, kind, "What?", **more)


def complaints(asked):
    return next(iter(prove_all([asked]))).complaints


SUM = CodeProof("2", "x = torch.tensor(rank + 1)\ndist.all_reduce(x)\nprint(x.item())\n")
CHOICE = question(options=(Option("3", right=True, shows=Shows("3")), Option("1.5", shows=Shows("1.5"))), proof=SUM)
BY_RANK = question(
    options=(
        Option("its own", right=True, shows=Shows(by_rank={0: "0", 1: "1"})),
        Option("rank 0's", shows=Shows("0")),
        Option("only rank 0 prints", shows=Shows(by_rank={0: "0"})),
    ),
    proof=CodeProof("2", "print(rank)"),
)
RAISES = question(
    options=(
        Option("it raises", right=True, shows=Shows(raises="ValueError: Invalid rank")),
        Option("it prints", shows=Shows("1")),
    ),
    proof=CodeProof("2", "raise ValueError('Invalid rank 7')"),
)
HANGS = question(
    options=(Option("it hangs", right=True, shows=Shows(hangs=True)), Option("it returns", shows=Shows("done"))),
    proof=CodeProof(
        "2", "if rank == 0:\n    dist.barrier()\n    print('done')\nelse:\n    import time; time.sleep(60)"
    ),
)
INSERTED = question(
    options=(Option("dist.get_rank()", right=True, code=True), Option("dist.rank()", code=True)),
    proof=CodeProof("2", "<option>\nprint('ok')", Shows("ok")),
)
CHOICES = question(
    Kind.CHOICES,
    options=(
        Option("a", right=True, shows=Shows("a: True")),
        Option("b", right=True, shows=Shows("b: True")),
        Option("c", shows=Shows("c: True")),
    ),
    proof=CodeProof("1", "print('a: True')\nprint('b: True')\nprint('c: False')"),
)
NUMBER = question(
    Kind.NUMBER,
    variables=(Variable("n", ("2", "3", "4")), Variable("s", ("12", "24"))),
    answer="n * s",
    traps=(Trap("s", "That is one rank's."),),
    proof=CodeProof("n", "x = torch.tensor(s)\ndist.all_reduce(x)\nprint('sum', x.item())"),
)
OUTPUT = question(
    Kind.OUTPUT,
    code="if rank == 1:\n    print([1, 'a'])\n",
    answer='[1, "a"]',
    rank=1,
    traps=(Trap("[]", "No."),),
    proof=CodeProof("2"),
)
ORDER = question(
    Kind.ORDER,
    lines=(Line("x = torch.ones(1)"), Line("x += 1"), Line("print(x.item())")),
    proof=CodeProof("1", "<option>", Shows("2.0")),
)
STEPS = question(Kind.ORDER, lines=(Line("first", "1"), Line("then", "2")), proof=CodeProof("1", "print(1)\nprint(2)"))
DEMO = question(
    options=(Option("1,800", right=True, shows=Shows("1800")), Option("1,200", shows=Shows("1200"))),
    proof=DemoProof("4", "allreduce", "bytes sent (ring)", ("--size", "300")),
)
SLOW = dataclasses.replace(
    CHOICE, proof=CodeProof("2", f"import time\nif rank:\n    time.sleep({2 * STILL})\n{SUM.code}")
)
GOOD = {
    "choice": CHOICE, "by rank": BY_RANK, "raises": RAISES, "hangs": HANGS, "inserted": INSERTED, "choices": CHOICES,
    "number": NUMBER, "output": OUTPUT, "order": ORDER, "steps": STEPS, "demo": DEMO, "slow": SLOW,
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_proof_holds_for_the_key(name):
    assert complaints(GOOD[name]) == ()


def swapped(asked):
    """Move the key to the first wrong option."""
    wrong = next(at for at, option in enumerate(asked.options) if not option.right)
    options = tuple(dataclasses.replace(option, right=at == wrong) for at, option in enumerate(asked.options))
    return dataclasses.replace(asked, options=options)


@pytest.mark.parametrize("name", ["choice", "by rank", "raises", "hangs", "inserted", "choices", "demo"])
def test_a_proof_fails_when_the_key_is_moved(name):
    assert complaints(swapped(GOOD[name]))


BAD = {
    "a number that is not observed": dataclasses.replace(NUMBER, answer="n + s"),
    "a trap that is right": dataclasses.replace(NUMBER, traps=(Trap("s * n", "No."),)),
    "no number": dataclasses.replace(NUMBER, proof=CodeProof("n", "print('none')")),
    "another output": dataclasses.replace(OUTPUT, answer="[2]"),
    "a trap that is printed": dataclasses.replace(OUTPUT, traps=(Trap("[1, 'a']", "No."),)),
    "an order that does not matter": dataclasses.replace(
        ORDER, lines=(Line("x = torch.ones(1)"), Line("y = 1"), Line("print(x.item() + y)"))
    ),
    "a wrong order": dataclasses.replace(STEPS, lines=STEPS.lines[::-1]),
    "a label that is not printed": dataclasses.replace(DEMO, proof=DemoProof("4", "allreduce", "bytes eaten")),
    "a run that fails": dataclasses.replace(CHOICE, proof=CodeProof("2", "print(3)\nraise SystemExit(1)")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_proof_that_does_not_show_the_key_is_complained_about(name):
    assert complaints(BAD[name])


def test_a_complaint_says_what_was_observed():
    assert complaints(swapped(CHOICE)) == (
        "the wrong answer '3' predicts what was observed: every rank prints '3'",
        "the right answer '1.5' does not predict what was observed: every rank prints '3'",
    )


@pytest.mark.parametrize("waits", ["pass", "time.sleep(0.01)"])
def test_a_proof_that_does_not_end_is_ended(waits):
    seen = run_code(f"import time\nwhile True:\n    {waits}", 2, STILL, limit=0.5)
    assert (seen.hung, seen.raised, str(seen)) == (False, "", "The ranks did not end within 0.5 s.")


BUSY = """import torch
import torch.distributed as dist
dist.init_process_group()
print(rank := dist.get_rank())
while rank == 1:
    pass
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda run: setattr(run, "limit", 0.0), "The ranks did not end within 0 s."),
        (lambda run: run.close(), "You stopped the run."),
    ],
)
def test_a_version_of_the_learners_own_that_does_not_end_says_who_waits_for_whom(end, why):
    with begin_own_version("c", Listing(2, "", Shows("")), BUSY, "c-1.py") as run:
        limit = run.limit
        while run._run.now() - run._run._watchdog.moved_at < 2:  # ranks that have just moved are not asked
            run.read(0.1)
        end(run)
        seen = run.finish()
    assert limit == 30
    assert (seen.printed, seen.failed) == ({0: "0", 1: "1"}, why)
    assert "Rank 0 waits in all_reduce at c-1.py:7 for rank 1: it has not reached this call" in seen.advice


def test_a_version_of_the_learners_own_whose_calls_differ_says_which_rank_called_what():
    code = BUSY.replace("while rank == 1:\n    pass", "if rank == 1: dist.broadcast(torch.ones(1), 0)")
    with begin_own_version("c", Listing(2, "", Shows("")), code, "c-1.py") as run:
        seen = run.finish()
    assert "broadcast at c-1.py:5" in seen.failed
    assert "all_reduce at c-1.py:6" in seen.failed
    assert seen.advice


def test_a_proof_says_what_torch_lacks():
    lacking = dataclasses.replace(OUTPUT, code="torch.nn.functional.of_tomorrow()", traps=())
    assert complaints(lacking) == (
        f"the answer is {OUTPUT.answer!r}, but the torch that is installed has no torch.nn.functional.of_tomorrow",
    )


def test_what_a_proof_leaves_among_files_for_a_while_goes_with_it():
    """A later run must not find it: ports, which name such folders well, come again."""
    code = "import os, tempfile, torch.optim\nprint(tempfile.mkdtemp())\nprint(os.environ['TMPDIR'])"
    run_code(
        code, 1, STILL
    )  # what it needs is imported before the ranks of later runs are forked, and asks for the folder
    seen = run_code(code, 1, STILL)
    made, folder = map(Path, seen.printed[0].splitlines())
    assert made.parent == folder
    assert not folder.exists()


def test_code_that_asks_for_nccl_is_told_by_torch_that_it_cannot_run_here():
    seen = run_code(
        'import torch.distributed as dist\ndist.init_process_group("nccl")\nprint(dist.get_backend())', 2, STILL
    )
    assert "NCCL" in seen.raised + seen.failed
    assert set(seen.printed.values()) == {""}
