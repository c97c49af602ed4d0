"""Expert parallelism: each token travels to the rank of its expert, and the
answer comes back.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist


def dispatch(
    tokens: torch.Tensor,
    experts: torch.Tensor,
    expert: Callable[[torch.Tensor], torch.Tensor],
    capacity: int,
) -> torch.Tensor:
    """Return for each token what its expert makes of it, and the token itself
    where it was dropped.

    Rank `r` has expert `r`. `tokens` has the shape (tokens, width); `experts`
    has the shape (tokens,) and says which expert each token wants. A rank
    sends at most `capacity` tokens to one expert: the first ones; the others
    are dropped. `expert` is this rank's expert; it takes tensors of the shape
    (any, width), and returns the same shape. The numbers of tokens differ
    among the ranks and may be 0; `tokens` is not changed.
    """
    n, width = dist.get_world_size(), tokens.shape[1]
    result = tokens.clone()  # a dropped token stays as it is

    # lab: write which of this rank's tokens go to each expert, in order, and how many arrive from each rank
    chosen = [(experts == each).nonzero().flatten()[:capacity] for each in range(n)]
    sent = torch.tensor([len(each) for each in chosen])
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    # lab: end

    # lab: write send the chosen tokens, run the expert once on all that arrive, send the answers back and store them
    order = torch.cat(chosen)  # the positions of the tokens that are sent, sorted by expert
    arriving = tokens.new_empty(int(received.sum()), width)
    dist.all_to_all_single(arriving, tokens[order], received.tolist(), sent.tolist())
    answers = tokens.new_empty(len(order), width)
    dist.all_to_all_single(answers, expert(arriving), sent.tolist(), received.tolist())
    result[order] = answers
    # lab: end
    return result
