"""What the shipped pictures show is true: it is computed here anew and compared with the places of their shapes."""

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

from ddpquiz.curriculum.pictures import pictures
from ddpquiz.paths import content_dir

RANKS = 4
BOX = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v[\d.]+h-[\d.]+z")


def shapes(name):
    """Return the shapes of a picture, each as its tag, classes, attributes and text."""
    root = ET.parse(pictures(content_dir())[name]).getroot()
    return [(each.tag.rpartition("}")[2], each.get("class", "").split(), each.attrib, each.text or "") for each in root]


def rows(name, *classes):
    """Return the boxes of the paths that have these classes, as begin and end, by their height on the page."""
    found = {}
    for tag, has, attributes, _ in shapes(name):
        if tag == "path" and has == [*classes]:
            for x, y, width in BOX.findall(attributes["d"]):
                found.setdefault(float(y), []).append((float(x), float(x) + float(width)))
    return [boxes for _, boxes in sorted(found.items())]


def test_the_ring_sends_what_an_all_reduce_sends():
    texts = [(float(at["y"]), float(at["x"]), text) for tag, _, at, text in shapes("ring") if tag == "text"]
    table = {}
    for y, _, text in sorted(texts):
        if re.fullmatch("[a-dA-D]", text) and y > 150:  # below the ring
            table.setdefault(y, []).append(text)
    chunks = [[{rank} for _ in range(RANKS)] for rank in range(RANKS)]  # whose numbers are in each chunk of each rank
    for step in range(2 * (RANKS - 1)):
        sent = [row[step] for row in table.values()]
        arrived = [(rank, "abcd".index(name.lower()), name.isupper()) for rank, name in enumerate(sent)]
        moved = [(rank, chunk, done, set(chunks[rank][chunk])) for rank, chunk, done in arrived]
        for rank, chunk, done, numbers in moved:
            assert done == (len(numbers) == RANKS), "capitals are finished sums"
            right = chunks[(rank + 1) % RANKS]
            assert done or not numbers & right[chunk], "no number is added twice"
            right[chunk] = numbers if done else numbers | right[chunk]
    assert all(len(numbers) == RANKS for chunk in chunks for numbers in chunk)


def pairs(name):
    """Return the schedules of a picture: of each stage its forwards and its backwards."""
    found = [(rows(name, f"rank-{stage}"), rows(name, f"rank-{stage}", "open")) for stage in range(RANKS)]
    return [[(forward[at], back[at]) for forward, back in found] for at in range(2)]


@pytest.mark.parametrize(
    ("name", "counts", "kept"),
    [("pipeline", (1, 4), ([1] * 4, [4] * 4)), ("pipeline-schedules", (6, 6), ([6] * 4, [4, 3, 2, 1]))],
)
def test_a_schedule_waits_for_what_it_needs_and_keeps_what_is_said(name, counts, kept):
    for schedule, count, most in zip(pairs(name), counts, kept, strict=True):
        width = schedule[0][0][0][1] - schedule[0][0][0][0]
        for stage, (forward, back) in enumerate(schedule):
            assert len(forward) == len(back) == count
            boxes = sorted(forward + back)
            assert all(after[0] >= before[1] for before, after in itertools.pairwise(boxes))
            assert all(end - begin == pytest.approx(width, abs=0.01) for begin, end in boxes)
            assert all(mine[1] <= theirs[0] for mine, theirs in zip(forward, back, strict=True))
            if stage:
                before = schedule[stage - 1]
                assert all(mine[0] >= theirs[1] for mine, theirs in zip(forward, before[0], strict=True))
                assert all(mine[1] <= theirs[0] for mine, theirs in zip(back, before[1], strict=True))
            held = [sum(each[0] <= at for each in forward) - sum(each[0] < at for each in back) for at, _ in boxes]
            assert max(held) == most[stage]


def test_a_batch_in_four_pieces_takes_14_slots_where_one_piece_takes_32():
    whole, pieces = (
        max(back[-1][1] for _, back in each) - min(forward[0][0] for forward, _ in each) for each in pairs("pipeline")
    )
    assert pieces / whole == pytest.approx(14 / 32, abs=0.01)


def test_the_bars_of_zero_are_as_long_as_what_a_rank_stores():
    for rank in range(RANKS):
        stored = [sum(end - begin for begin, end in row) for row in rows("zero-stages", f"rank-{rank}")]
        share = [length / stored[0] for length in stored]
        assert share == pytest.approx([1, (4 + 12 / 4) / 16, (2 + 14 / 4) / 16, 1 / 4], abs=0.001)
