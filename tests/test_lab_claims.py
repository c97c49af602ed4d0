"""What a verdict on a broken claim says about the learner's file."""

from dataclasses import replace

import pytest

from ddpquiz.curriculum.lab import LabRun
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.ranks.lab_check import check_file

RING = replace(load_lab("ring-all-reduce"), runs=(LabRun(2, (1,)),))
HEAD = "import torch\nimport torch.distributed as dist\ndef all_reduce(x):\n"


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("x += 1", 0, "every rank holds the sum of all tensors."),
        ("dist.broadcast(x, 0)", 4, "The only operation that your file called there is broadcast in line 4."),
        (
            "dist.broadcast(x, 0)\n    dist.barrier()", 0,
            "Its last operation was barrier in line 5; the fault need not be there.",
        ),
    ],
    ids=["none", "one", "two"],
)  # fmt: skip
def test_an_operation_is_named_as_the_place_only_if_there_is_no_other(tmp_path, body, line, said):
    file = tmp_path / "ring_all_reduce.py"
    file.write_text(f"{HEAD}    {body}\n")
    verdict = check_file(RING, file, fresh=9)
    assert (verdict.outcome, verdict.line) == ("claim", line)
    assert verdict.sentence.endswith(said), verdict.sentence
