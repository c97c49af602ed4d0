"""Ring attention: blocks of keys and values travel round past all queries.

    torchrun --nproc-per-node 4 demos/ring_attention.py

The sequence is split over the ranks. Each rank keeps its queries and passes a
block of keys and values to the right, N-1 times. No rank ever holds all
scores: each query keeps a running maximum, a running sum and a weighted sum
of values (the online softmax), and the result is exact.
Look at the rounds: whose block a rank has, and how many scores it computes
with it. A query uses only its own and earlier tokens (causal mask), so the
work is not equal: look at `share of the work`.

Try    --order zigzag       an early and a late piece each: equal work
       --mask full          every query looks at every token: equal work
       --tokens 480         ten times the bytes, a hundred times the scores
"""

import argparse
import math
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.functional import scaled_dot_product_attention

WIDTH = 8


def ring_attention(q: torch.Tensor, block: torch.Tensor, mine: torch.Tensor, causal: bool) -> tuple:
    """Attend with queries `q` over a ring; return the output, the number of scores and the bytes that were sent."""
    rank, world = dist.get_rank(), dist.get_world_size()
    highest = torch.full((len(mine), 1), -math.inf, device=q.device)  # each query's highest score so far
    total, output = torch.zeros_like(highest), torch.zeros_like(q)
    work, sent = [], 0
    for step in range(world):  # the block in hand is used while the next one travels
        if step < world - 1:
            arriving, requests = pass_on(block)
        k, v, positions = block.split([WIDTH, WIDTH, 1], dim=1)
        scores = q @ k.T / math.sqrt(WIDTH)
        seen = mine[:, None] >= positions.T if causal else torch.ones_like(scores, dtype=torch.bool)
        scores.masked_fill_(~seen, -math.inf)  # a real kernel would not compute these at all
        work.append(seen.sum().item())

        # Online softmax (Milakov & Gimelshein 2018): when a higher score comes, what was summed so far shrinks.
        higher = torch.maximum(highest, scores.max(dim=1, keepdim=True).values)
        shrink, weights = torch.exp(highest - higher), torch.exp(scores - higher)
        total = total * shrink + weights.sum(dim=1, keepdim=True)
        output = output * shrink + weights @ v
        highest = higher
        print(f"round {step + 1} (block and scores): {(rank - step) % world}: {work[-1]}", flush=True)

        if step < world - 1:
            for request in requests:
                request.wait()
            block, sent = arriving, sent + block.nbytes
    return output / total, sum(work), sent


def pass_on(block: torch.Tensor) -> tuple[torch.Tensor, list]:
    """Start to send a block to the right and to receive one from the left; returns what will arrive."""
    rank, world = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(block)
    send = dist.P2POp(dist.isend, block, (rank + 1) % world)
    receive = dist.P2POp(dist.irecv, arriving, (rank - 1) % world)
    return arriving, dist.batch_isend_irecv([send, receive])


def main() -> None:
    """Attend over a ring; compare with attention over the whole sequence in one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, help="length of the whole sequence (default: 4 for each rank)")
    parser.add_argument("--order", choices=("plain", "zigzag"), default="plain", help="which tokens a rank gets")
    parser.add_argument("--mask", choices=("causal", "full"), default="causal", help="what a query may look at")
    args = parser.parse_args()
    rank, world, causal = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.mask == "causal"
    tokens = 4 * world if args.tokens is None else args.tokens
    if tokens < 1 or tokens % (2 * world):
        raise SystemExit(f"--tokens {tokens}: {world} ranks need a multiple of {2 * world}, two pieces for each.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # The whole sequence is there to compare with. Which of its tokens are this rank's: one run, or with zigzag piece
    # r from the front and piece r from the back.
    torch.manual_seed(0)
    whole_q, whole_k, whole_v = torch.randn(3, tokens, WIDTH).to(device)
    pieces = torch.arange(tokens, device=device).chunk(2 * world)
    deal = (rank, 2 * world - 1 - rank) if args.order == "zigzag" else (2 * rank, 2 * rank + 1)
    mine = torch.cat([pieces[piece] for piece in deal])
    runs = [mine] if args.order == "plain" else mine.chunk(2)
    print(f"my tokens: {' '.join(f'{run[0].item()}-{run[-1].item()}' for run in runs)}")

    # Positions travel with keys and values, for the mask.
    block = torch.cat([whole_k[mine], whole_v[mine], mine[:, None].float()], dim=1)
    output, work, sent = ring_attention(whole_q[mine], block, mine, causal)

    # Compare with one process, and count how much each rank worked.
    exact = scaled_dot_product_attention(whole_q[None], whole_k[None], whole_v[None], is_causal=causal)[0, mine]
    works = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
    dist.all_gather(works, torch.tensor([work], device=device))
    works = torch.cat(works).tolist()
    print(f"scores to compute: {work}")
    print(f"share of the work: {work / sum(works):.2f}")
    print(f"bytes of a block: {block.nbytes}")
    print(f"bytes sent: {sent}")
    print(f"first output (ring): {output[0, 0].item():.4f}")
    print(f"first output (alone): {exact[0, 0].item():.4f}")
    assert torch.allclose(output, exact, atol=1e-5), "the output of the ring is that of attention in one process"
    pairs = tokens * (tokens + 1) // 2 if causal else tokens**2
    assert sum(works) == pairs, "each allowed pair of a query and a key is computed once, on one rank"
    assert sent == (world - 1) * block.nbytes, "each rank sends N-1 blocks of keys and values, and no scores"
    b = len(mine)
    if causal and args.order == "plain":
        assert works == [r * b * b + b * (b + 1) // 2 for r in range(world)], (
            "with a causal mask and tokens in order, each rank computes more than the one before"
        )
    else:
        assert len(set(works)) == 1, "without a mask, or with zigzag, all ranks compute the same number of scores"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
