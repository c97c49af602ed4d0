"""What a verdict on a broken claim says about the learner's file."""

import re
from dataclasses import replace

import pytest

from ddpquiz.curriculum.lab import LabRun
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.lab.checker import check_solution

RING = replace(load_lab("ring-all-reduce"), runs=(LabRun(2, (1,)),))
HEAD = "import torch\nimport torch.distributed as dist\ndef all_reduce(x):\n"


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("x += 1", 0, "every rank holds the sum of all tensors."),
        ("x += 1; dist.broadcast(x, 0)", 4, "The only operation that your file called there is broadcast in line 4."),
        ("x += 1; dist.broadcast(x, 0)\n    dist.barrier()", 0, "every rank holds the sum of all tensors."),
        (
            "dist.broadcast(x, 0)", 0,
            "Nothing that your file called there has changed it; its last operation was broadcast in line 4.",
        ),
    ],
    ids=["none", "one", "two", "innocent"],
)  # fmt: skip
def test_an_operation_is_named_as_the_place_only_if_there_is_no_other(tmp_path, body, line, said):
    file = tmp_path / "ring_all_reduce.py"
    file.write_text(f"{HEAD}    {body}\n")
    verdict = check_solution(RING, file, fresh=9)
    assert (verdict.outcome, verdict.line) == ("claim", line)
    assert verdict.sentence.endswith(said), verdict.sentence


def test_an_error_in_load_is_shown_with_its_type_line_and_message(tmp_path):
    lab = load_lab("sharded-checkpoint")
    head, _, body = lab.solution.source.partition("def load(")
    signature, quotes, rest = body.partition('"""')
    inner = f'{quotes}{rest.partition(quotes)[0]}{quotes}\n    if "killed" in str(folder):\n        raise OSError("torn\\nfile")\n'
    code = rest.partition(quotes)[2]
    file = tmp_path / "sharded_checkpoint.py"
    file.write_text(f"{head}def load({signature}{inner}{code}")
    verdict = check_solution(replace(lab, runs=(replace(lab.runs[0], seeds=(1,)),)), file, fresh=9)
    line = next(number for number, each in enumerate(file.read_text().splitlines(), 1) if "OSError" in each)
    assert (verdict.outcome, verdict.line) == ("claim", line), verdict.sentence
    assert f"`load` raised OSError in line {line}: torn. This must hold: " in verdict.sentence


def mistaken(folder, name, old, new, ranks=2):
    """The verdict on the solution of a lab with a mistake."""
    lab = load_lab(name)
    assert lab.solution.source.count(old) == 1
    file = folder / lab.file_name
    file.write_text(lab.solution.source.replace(old, new))
    return check_solution(replace(lab, runs=(LabRun(ranks, (1,)),)), file, fresh=9)


def test_a_difference_that_reads_like_progress_with_numbers_is_quoted_whole(tmp_path):
    lab = load_lab("restart-from-checkpoint")
    file = tmp_path / lab.file_name
    old = 'job.model.load_state_dict(state["model"])'
    assert lab.solution.source.count(old) == 1
    file.write_text(lab.solution.source.replace(old, "pass"))
    verdict = check_solution(replace(lab, runs=(replace(lab.runs[0], seeds=(1,)),)), file, fresh=9)
    assert re.search(r"^On rank 0 of \d, step \d+ has the loss \d\.\d+, expected \d\.\d+\. This must", verdict.sentence)
    assert "not as claimed" not in verdict.values.values()


def test_a_rank_that_still_waits_when_another_breaks_a_claim_is_shown_in_its_call(tmp_path):
    mean = "if dist.get_rank() == 0:\n                    dist.all_reduce(parameter.grad)"
    verdict = mistaken(tmp_path, "naive-ddp", "dist.all_reduce(parameter.grad)", mean)
    lines = (tmp_path / "naive_ddp.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "dist.all_reduce(" in text)
    assert (verdict.outcome, verdict.rank) == ("claim", 1)
    assert verdict.values[0] == f"did not get that far: it was still in all_reduce in line {line}"


def test_a_tensor_that_was_forgotten_is_named_and_no_call_is_blamed(tmp_path):
    verdict = mistaken(tmp_path, "naive-ddp", "(*module.parameters(), *module.buffers())", "module.parameters()")
    assert (verdict.rank, verdict.line) == (1, 0)
    assert "On rank 1 of 2, element 0 of 6 of the buffer `scale` is " in verdict.sentence
    assert "; it still holds what this rank had before. This must hold: every rank begins with" in verdict.sentence
    assert (
        "Nothing that your file called there has changed it; its last operation was broadcast in line"
        in verdict.sentence
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "named", "looks"),
    [
        ("naive-ddp", "parameter.grad /= dist.get_world_size()", "pass", "`embedding.weight.grad`", "2 times too large, as a sum"),
        ("flat-gradients", "flat /= dist.get_world_size()", "flat /= 4", "the gradient of parameter 0", "2 times too small, as a mean"),
        ("ring-all-reduce", "].copy_(received)", "].copy_(received), x.zero_()", "`x`", "all are 0"),
        ("ring-all-gather", "return parts", "return [part.flip(-1) for part in parts]", "tensor 0 of the result", "the numbers are right, but"),
    ],
)  # fmt: skip
def test_what_wrong_numbers_look_like_is_said(tmp_path, name, old, new, named, looks):
    verdict = mistaken(tmp_path, name, old, new)
    assert verdict.outcome == "claim", verdict.sentence
    assert f" of {named} is " in verdict.sentence
    assert f"; {looks}" in verdict.sentence


def test_a_send_that_nobody_waits_for_is_the_verdict_and_not_the_order_of_what_arrived(tmp_path):
    lab = load_lab("ring-all-gather")
    line = next(at for at, text in enumerate(lab.solution.source.splitlines(), 1) if "isend(parts" in text)
    verdict = mistaken(tmp_path, "ring-all-gather", "        sending.wait()\n", "", ranks=3)
    assert verdict.line == line
    assert verdict.sentence.startswith(f"Rank {verdict.rank} never waits for the isend in line {line}, so its tensor")


def test_a_rank_that_broke_off_before_its_wait_is_not_told_to_wait(tmp_path):
    verdict = mistaken(tmp_path, "ring-all-gather", "parts[(rank - step) % n], following", "mine, following", ranks=3)
    assert verdict.outcome == "claim"
    assert "never waits" not in verdict.sentence
