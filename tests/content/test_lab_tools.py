"""What the checks of labs print about values that are not as expected."""

import importlib.util

import pytest
import torch

from ddpquiz.curriculum.labs import load_lab

SPEC = importlib.util.spec_from_file_location(
    "lab_tools", load_lab("ring-all-reduce").check.parents[1] / "lab_tools.py"
)
lab_tools = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lab_tools)


@pytest.mark.parametrize(
    ("found", "expected", "what", "printed"),
    [
        (2, 3, "batches used", "2 batches used, expected 3"),
        (None, 3, "batches used", "batches used: the result is None, expected 3"),
        ([1], [], "losses reported", "losses reported: [1], expected []"),
        (torch.ones(2), torch.zeros(2), "weight", "element 0 of 2 of weight is 1, expected 0 (2 elements differ)"),
        (
            torch.tensor([1 + 1e-9], dtype=torch.double), torch.ones(1, dtype=torch.double), "weight",
            "weight is 1.0000000010000001, expected 1",
        ),
        (torch.ones(2), torch.ones(3), "`x`", "the shape of `x` is (2,), expected (3,)"),
        (torch.ones(2), torch.ones(2).long(), "`x`", "the dtype of `x` is torch.float32, expected torch.int64"),
        (None, torch.ones(2), "`x.grad`", "`x.grad` is None, expected a tensor of shape (2,)"),
        (3, 3, "batches used", ""),
    ],
)  # fmt: skip
def test_a_difference_says_what_was_counted(capsys, found, expected, what, printed):
    assert lab_tools.same(found, expected, what=what) == (not printed)
    assert capsys.readouterr().out == (f"differs: {printed}\n" if printed else "")


def test_only_a_folder_that_no_other_user_can_write_to_is_shared_by_ranks(tmp_path):
    mine, open_to_all, link = tmp_path / "mine", tmp_path / "open", tmp_path / "link"
    mine.mkdir(mode=0o700)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link.symlink_to(mine)
    assert [lab_tools._is_private(folder) for folder in (mine, open_to_all, link)] == [True, False, False]
