"""Checks that each token is answered by its own expert, within the capacity.

torchrun --nproc-per-node 4 labs/expert_dispatch/check.py expert_dispatch.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, same

WIDTH = 4


class Expert:
    """Multiplies by a number of its own, and remembers how many tokens it got in each call."""

    def __init__(self, number: int) -> None:
        self.factor, self.calls = number + 2, list[int]()

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        self.calls.append(len(tokens))
        return self.factor * tokens + 1


def within(experts: torch.Tensor, capacity: int) -> torch.Tensor:
    """Return which tokens of one rank are sent: at most `capacity` of them to each expert, the first ones."""
    before = torch.nn.functional.one_hot(experts, n).cumsum(dim=0)
    return before.gather(1, experts.unsqueeze(1)).squeeze(1) <= capacity


check = Check("dispatch")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    # Everything fits; popular experts overflow; nobody wants expert 0, and the last rank has no tokens, then rank 0.
    for capacity, lowest, empty in ((20, 0, None), (2, 0, None), (3, min(1, n - 1), n - 1), (4, min(1, n - 1), 0)):
        lengths = [0 if each == empty and n > 1 else check.random.randrange(4, 9) for each in range(n)]
        wanted = [torch.randint(lowest, n, (length,)) for length in lengths]
        inputs = [torch.randint(-50, 50, (length, WIDTH)).float() for length in lengths]
        kept = [within(each, capacity) for each in wanted]
        asked = sum(int((kept[each] & (wanted[each] == rank)).sum()) for each in range(n))
        moving = int(kept[rank].sum()) + asked  # this rank's tokens on the way out, and the answers that it gives

        expert, tokens = Expert(rank), inputs[rank].clone()
        check.delay(0.003)
        with check.phase("dispatch", bytes=4 * WIDTH * moving):
            found = check.learner.dispatch(tokens, wanted[rank].clone(), expert, capacity)

        assert len(expert.calls) <= 1 or differs(f"expert {rank} ran {len(expert.calls)} times, expected 1 time"), (
            "each expert runs once, on all its tokens together"
        )
        assert same(sum(expert.calls), asked, what=f"tokens came to expert {rank}"), (
            "each expert gets every token that was sent to it, and no other"
        )
        scale = (wanted[rank] + 2.0).unsqueeze(1)
        expected = torch.where(kept[rank].unsqueeze(1), scale * inputs[rank] + 1, inputs[rank])
        assert same(found, expected, what="the result"), (
            "each token has the answer of its expert, and a dropped token stays as it is"
        )
        assert same(tokens, inputs[rank], what="`tokens`"), "the tokens that are passed in stay as they were"

check.end()
