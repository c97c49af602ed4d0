"""Lines about the progress of training: their numbers become rows and curves, as those of `label: value` lines."""

import pytest
from drawn_run import drawn, said, seen

from ddpquiz.events.event import Output
from ddpquiz.events.printed_values import read_progress

READ = {
    "iter 5: loss 4.1000, time 12.30ms, mfu 3.2%": {
        "iter": "5", "loss": "4.1000", "time (ms)": "12.30", "mfu (%)": "3.2",
    },
    "[Epoch 0/19] lr=0.001 acc: 0.950": {"Epoch": "0", "lr": "0.001", "acc": "0.950"},
    "Epoch: [0][10/100] Time 0.5 ( 0.6) Loss 6.9e+00 (7.0)": {"Epoch": "0", "Time": "0.5", "Loss": "6.9e+00"},
    "{'loss': 2.1, 'learning_rate': 5e-05}": {"loss": "2.1", "learning_rate": "5e-05"},
    "Rank 1, epoch 3, step 20: val loss=nan": {"epoch": "3", "step": "20", "val loss": "nan"},
    "[12:00:00] step: 5  memory: 1.2GiB(3%)  tps: 5,000": {"step": "5", "memory (GiB)": "1.2", "tps": "5000"},
    "Epoch 1: saving the checkpoint number 3 to x": {},  # a sentence
    "epoch 2: [1, 2, 3]": {},
    "Rank 3 dies in step 7.": {},
    "step 3 done in 2.1 s": {},
    "from step 9: rank 3 sleeps 100 ms more": {},
    "resumed at step: 3": {},  # a label and its value
    "loss 0.5, time 3": {},  # says nothing of progress
    "step " + "x" * 4000 + " 1 loss 2": {},
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_the_numbers_of_a_line_have_their_names_and_units(text):
    assert read_progress(text) == READ[text]


def test_lines_of_progress_become_one_row_a_number_with_its_curve():
    events = [said(0, f"iter {at}", f"loss {loss}, time 1ms") for at, loss in enumerate((4, 3, 2, 0))]
    picture = seen(*events)
    assert list(picture.rows) == ["iter", "loss", "time (ms)"]
    assert "0       -\n           █▆▄▁" in drawn(picture)
    assert [line.text for line in picture.log[0]] == [event.text for event in events]  # the log has them as printed


def test_errors_are_not_read_as_progress():
    assert seen(Output(0.1, 0, "stderr", "step 1 loss 2")).rows == {}
