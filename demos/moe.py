"""Mixture of experts: each token is sent to the expert that computes it.

    torchrun --nproc-per-node 4 demos/moe.py

Each rank has its own tokens and one expert. A router scores every token for
every expert and sends it to the best. The numbers depend on the data, so the
counts are exchanged first (an all-to-all of N numbers), then the tokens
(dispatch), and after the experts the results (combine).
Look at `tokens to compute`, which is uneven, and compare `busy` with `step`:
all ranks wait for the busiest expert. Computing is a sleep of 5 ms per token.
`balance loss` is what training would add to its loss: 1 when all is even, up
to N when one expert gets everything.

Try    --skew 3                 almost all ranks wait for expert 0
       --skew 3 --capacity 1    a short step again, and dropped tokens
       --balance                tokens go to the experts in turn
"""

import argparse
import math
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

TOKENS, WIDTH, SECONDS = 24, 8, 0.005  # tokens of each rank; SECONDS that an expert takes for a token


def exchange(x: torch.Tensor, out: list[int], into: list[int]) -> torch.Tensor:
    """All-to-all: the first out[0] rows of `x` go to rank 0, the next to rank 1, ...; returns what came, by rank."""
    arrived = x.new_empty(sum(into), *x.shape[1:])
    dist.all_to_all_single(arrived, x, into, out)
    return arrived


def route(tokens: torch.Tensor, router: torch.Tensor, args: argparse.Namespace) -> tuple[torch.Tensor, ...]:
    """Choose an expert for each token; return the choices, the accepted tokens by expert, and the balance loss."""
    world = dist.get_world_size()
    scores = tokens @ router
    scores[:, 0] += args.skew
    chosen = scores.argmax(dim=1)  # one expert a token, as in Switch Transformer (Fedus et al. 2021)
    if args.balance:
        chosen = torch.arange(TOKENS, device=tokens.device) % world
    limit = TOKENS if args.capacity is None else math.ceil(args.capacity * TOKENS / world)
    # A full expert accepts no more tokens of this rank: they stay unchanged (dropped).
    order = torch.cat([(chosen == expert).nonzero()[:limit, 0] for expert in range(world)])  # sorted by expert
    wanted = torch.bincount(chosen, minlength=world)
    balance = torch.stack([wanted / TOKENS, scores.softmax(dim=1).mean(dim=0)]) / world
    dist.all_reduce(balance)  # the share of all tokens that want each expert, and its mean probability
    return chosen, order, world * (balance[0] * balance[1]).sum()


def compute_tokens(sorted_tokens: torch.Tensor, out: list[int], into: list[int], experts: torch.Tensor) -> tuple:
    """Dispatch, compute, combine; return the results, and the seconds of computing and of the whole step."""
    rank = dist.get_rank()
    dist.barrier()
    start = time.perf_counter()
    arrived = exchange(sorted_tokens, out, into)
    began = time.perf_counter()
    time.sleep(SECONDS * len(arrived))
    results = arrived @ experts[rank]
    busy = time.perf_counter() - began
    back = exchange(results, into, out)
    dist.barrier()  # no rank goes on before the busiest expert is done
    return back, busy, time.perf_counter() - start


def main() -> None:
    """Route, dispatch, compute, combine; compare with all experts in one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skew", type=float, default=0, help="added to every token's score for expert 0")
    parser.add_argument(
        "--capacity", type=float, help="an expert accepts at most this times tokens/experts; default: all"
    )
    parser.add_argument("--balance", action="store_true", help="route round robin, whatever the scores")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if args.capacity is not None and args.capacity <= 0:
        raise SystemExit("--capacity needs a factor above 0: 1 means that each expert takes its fair share.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # The router is on every rank. Each rank uses one expert and its own tokens; the rest is there to compare with.
    torch.manual_seed(0)
    router = torch.randn(WIDTH, world).to(device)
    experts = torch.randn(world, WIDTH, WIDTH).to(device)
    tokens = torch.randn(world, TOKENS, WIDTH).to(device)[rank]

    chosen, order, loss = route(tokens, router, args)
    out = torch.bincount(chosen[order], minlength=world)
    # Counts first: nobody can know yet how many tokens to expect.
    into = torch.empty_like(out)
    dist.all_to_all_single(into, out)
    out, into = out.tolist(), into.tolist()
    print(f"sent to experts 0-{world - 1}: {' '.join(map(str, out))}")
    print(f"tokens to compute: {sum(into)}")
    back, busy, step = compute_tokens(tokens[order], out, into, experts)
    output = tokens.clone()
    output[order] = back
    print(f"busy (5 ms a token): {busy * 1e3:.0f} ms")
    print(f"step: {step * 1e3:.0f} ms")
    if args.capacity is not None:
        print(f"tokens dropped: {TOKENS - len(order)} of {TOKENS}")
    print(f"balance loss (1 is even): {loss:.2f}")
    if rank == 0:
        print(f"Rank r has expert r and {TOKENS} tokens, and sleeps instead of computing.")

    # Compare with one process, which has all experts.
    expected = tokens.clone()
    for token in order.tolist():
        expected[token] = tokens[token] @ experts[chosen[token]]
    assert torch.allclose(output, expected, atol=1e-5), "every token came back to its place, computed by its own expert"
    loads = [torch.zeros(2, dtype=torch.int64, device=device) for _ in range(world)]
    dist.all_gather(loads, torch.tensor([sum(into), TOKENS - len(order)], device=device))
    computed, dropped = torch.stack(loads).T.tolist()
    assert sum(computed) + sum(dropped) == world * TOKENS, "each token is computed by one expert, or dropped"
    assert step > SECONDS * max(computed), "on every rank the step takes as long as the busiest expert"
    if args.capacity is not None:
        assert max(computed) < args.capacity * TOKENS + world, "no expert accepts more tokens than its capacity"
    if args.balance:
        assert max(computed) - min(computed) <= world, "with even routing all experts have the same number of tokens"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
