"""A run as plain lines."""

from drawn_run import plain, said
from inline_snapshot import snapshot

from ddpquiz.events.event import Claimed, End, Note


def test_plain_lines_come_in_the_order_of_printing():
    note = Note(0.1, 0, "The script asks for nccl; Gloo takes its place on CPU.")
    assert plain(note, said(1, "mine", "2"), Claimed(0.3, 0, 7, held=True), End(0.4, True, 1, 2)) == snapshot(
        [
            "2 ranks on CPU over Gloo · no GPU found",
            "The script asks for nccl; Gloo takes its place on CPU.",
            "rank 1  mine: 2",
            "✓ rank 0  every rank holds the sum",
            "done in 0.40 s · 1 claim proven; 1 not tested with these options",
        ]
    )
