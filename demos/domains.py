"""Domains: an all-to-all over NVLink domains, and how much of it has to leave the domain.

    torchrun --nproc-per-node 4 demos/domains.py

The ranks play GPUs in *domains*, in which links are fast: the 8 GPUs of a
machine, or the 72 of a rack. Each rank has one block for every rank. `leaves`
counts the blocks for other domains: (n-g) of n-1, for n ranks in domains of g.
The larger the domain, the fewer leave; with one domain, none. A two-level
all-to-all first passes blocks inside the domain, to the GPU in the same place
as their destination, and then sends one message to each other domain. Just as
many bytes leave, in fewer messages; more bytes move inside.

Try    --domain 4    one domain: nothing leaves
       --domain 1    each rank is a domain: everything leaves
       --size 300    larger blocks
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist

messages: list[tuple[int, int]] = []  # the receiver and the bytes of each message that this rank has sent


def exchange(blocks: torch.Tensor, members: list[int]) -> torch.Tensor:
    """Send block i to member i, and return the blocks that the members have for this rank, in their order."""
    arrived = torch.empty_like(blocks)
    calls = []
    for place, member in enumerate(members):
        if member == dist.get_rank():
            arrived[place] = blocks[place]
            continue
        block = blocks[place].contiguous()
        calls += [dist.P2POp(dist.isend, block, member), dist.P2POp(dist.irecv, arrived[place], member)]
        messages.append((member, block.nbytes))
    for work in dist.batch_isend_irecv(calls) if calls else []:
        work.wait()
    return arrived


def two_levels(x: torch.Tensor, domain: list[int], rail: list[int]) -> torch.Tensor:
    """Exchange inside the domain by place, then between domains: x has a block for each of `rail` x `domain`."""
    by_place = exchange(x.transpose(0, 1).contiguous(), domain)  # to place p: all blocks for the ranks at place p
    by_domain = exchange(by_place.transpose(0, 1).contiguous(), rail)  # one message for each other domain
    return by_domain.flatten(0, 1)


def sent_bytes(domain: list[int]) -> tuple[int, int, int]:
    """Return the bytes sent inside the domain, the bytes sent out of it, and in how many messages; forget them."""
    inside = sum(count for to, count in messages if to in domain)
    out = [count for to, count in messages if to not in domain]
    messages.clear()
    return inside, sum(out), len(out)


def main() -> None:
    """Exchange the same blocks in two ways, and count what crosses the boundary of the domain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--domain", type=int, help="GPUs in a domain; default: half of the ranks, or 1")
    parser.add_argument("--size", type=int, default=3, help="numbers in each block, four bytes each")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpus = args.domain or (world // 2 if world % 2 == 0 else 1)
    if gpus < 1 or world % gpus or args.size < 1:
        raise SystemExit(f"--domain must divide {world} ranks, and --size be 1 or more.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    domains = world // gpus
    domain = [rank // gpus * gpus + place for place in range(gpus)]
    rail = [place for place in range(world) if place % gpus == rank % gpus]  # the same place in every domain
    print(f"my domain: {' '.join(map(str, domain))}")

    numbers = torch.arange(world * args.size, dtype=torch.float32, device=device) + 1000 * rank
    x = numbers.view(world, args.size)  # block i is for rank i
    expected = torch.empty_like(x)
    dist.all_to_all_single(expected, x)
    messages.clear()
    plain = exchange(x, list(range(world)))
    inside, out, count = sent_bytes(domain)
    staged = two_levels(x.view(domains, gpus, args.size), domain, rail)
    inside_staged, out_staged, count_staged = sent_bytes(domain)

    print(f"stays inside: {inside}")
    print(f"leaves: {out}")
    print(f"share that leaves: {100 * out / max(inside + out, 1):.0f}%")
    print(f"messages that leave: {count}")
    print(f"stays inside (two levels): {inside_staged}")
    print(f"leaves (two levels): {out_staged}")
    print(f"messages that leave (two levels): {count_staged}")
    if rank == 0:
        print(f"Domains: {domains} of {gpus}. Blocks: {x[0].nbytes} bytes. Counts are for one rank.")

    assert torch.equal(plain, expected), "blocks sent one by one arrive as with all_to_all_single"
    assert torch.equal(staged, expected), "two levels deliver the same blocks"
    assert out * (world - 1) == (inside + out) * (world - gpus), "(n-g)/(n-1) of what a rank sends leaves its domain"
    assert out_staged == out, "two levels send just as many bytes out of the domain"
    assert (count, count_staged) == (world - gpus, domains - 1), "n/g - 1 messages leave instead of n - g"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
