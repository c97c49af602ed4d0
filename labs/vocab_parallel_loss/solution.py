"""Cross-entropy over a vocabulary that is cut over the ranks: nobody holds all
logits.
"""

import torch
import torch.distributed as dist


class VocabParallelLoss(torch.autograd.Function):
    """The mean cross-entropy of logits that the ranks split by words."""

    @staticmethod
    def forward(
        context,
        logits: torch.Tensor,
        targets: torch.Tensor,
    ) -> torch.Tensor:
        """Return the mean loss over all tokens, the same on all ranks.

        `logits` has the shape (tokens, words): rank `r` has those of the words
        from `r * words` up to, but not including, `(r + 1) * words`.
        `targets`, of the shape (tokens,), are words of the whole vocabulary,
        the same on all ranks.
        """
        words = logits.shape[1]
        # where the target would stand in this rank's logits
        local = targets - dist.get_rank() * words
        here = (local >= 0) & (local < words)  # True where it does
        local = local.clamp(0, words - 1).unsqueeze(1)

        # lab: write the largest logit of each token, the sum of exponentials and the target's logit, over all ranks
        largest = logits.amax(dim=1, keepdim=True)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        shifted = logits - largest
        exponentials = shifted.exp()
        target = shifted.gather(1, local).squeeze(1) * here
        sums = torch.stack([exponentials.sum(dim=1), target])  # one message for both
        dist.all_reduce(sums)
        total, target = sums
        loss = (total.log() - target).mean()
        probabilities = exponentials / total.unsqueeze(1)  # for this rank's words
        # lab: end
        context.save_for_backward(probabilities, local, here)
        return loss

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of this rank's logits; `gradient` is a number,
        the same on all ranks.
        """
        probabilities, local, here = context.saved_tensors
        # lab: write the probabilities, less one at the target of each token, for the mean over all tokens
        logits_gradient = probabilities.clone()
        logits_gradient.scatter_add_(1, local, -here.unsqueeze(1).to(probabilities.dtype))
        logits_gradient *= gradient / len(local)
        # lab: end
        return logits_gradient, None
