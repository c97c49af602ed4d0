"""What a verdict on a broken claim says about the learner's file."""

from dataclasses import replace

import pytest

from ddpquiz.curriculum.lab import LabRun
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.lab.check import check_file

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


def test_an_error_in_load_is_shown_with_its_type_line_and_message(tmp_path):
    lab = load_lab("sharded-checkpoint")
    head, _, body = lab.solution.source.partition("def load(")
    signature, quotes, rest = body.partition('"""')
    inner = f'{quotes}{rest.partition(quotes)[0]}{quotes}\n    if "killed" in str(folder):\n        raise OSError("torn\\nfile")\n'
    code = rest.partition(quotes)[2]
    file = tmp_path / "sharded_checkpoint.py"
    file.write_text(f"{head}def load({signature}{inner}{code}")
    verdict = check_file(replace(lab, runs=(replace(lab.runs[0], seeds=(1,)),)), file, fresh=9)
    line = next(number for number, each in enumerate(file.read_text().splitlines(), 1) if "OSError" in each)
    assert (verdict.outcome, verdict.line) == ("claim", line), verdict.sentence
    assert f"`load` raised OSError in line {line}: torn. This must hold: " in verdict.sentence
