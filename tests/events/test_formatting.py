"""Ranks, bytes and seconds in words, and what an exception says in a line."""

import pytest
import torch
import torch.distributed as dist

from ddpquiz.events.formatting import in_one_line, list_ranks


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((0, 2, 3), "0, 2 and 3"),
        ((1,), "1"),
        ((0, 1, 2, 5, 6), "0-2, 5 and 6"),
        (range(0, 64, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and others, 32 in all"),
    ],
)
def test_lists_of_ranks_are_short(ranks, said):
    assert list_ranks(ranks) == said


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda _: setattr(dist.AllreduceOptions(), "reduceOp", "sum"), "a function of torch does not take arguments of these types: 'sum'"),
        (lambda _: dist.PrefixStore("a", "b"), "a function of torch does not take arguments of these types: 'a', 'b'"),
        (lambda _: dist.all_reduce([1.0]), "Invalid function argument. Expected parameter `tensor` of type torch.Tensor but got <class 'list'> instead."),
        (lambda store: store.set("a", {"b": "c" * 200}), f"set() does not take arguments of these types: 'a', {{'b': '{'c' * 108}..."),
        (lambda _: torch.empty("x"), "empty(): argument 'size' (position 1) must be tuple of ints, not str"),
    ],
)  # fmt: skip
def test_a_message_of_torch_in_a_line_says_what_is_wrong(call, said):
    with pytest.raises(TypeError) as raised:
        call(dist.HashStore())
    assert in_one_line(str(raised.value)) == said
