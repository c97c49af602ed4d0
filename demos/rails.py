"""Rails: sum inside each node first, then over the network, so that every network card (NIC) carries an equal part.

    torchrun --nproc-per-node 4 demos/rails.py

The ranks play nodes of several GPUs, one NIC for each GPU. A flat ring visits
all ranks in turn: it leaves each node over one NIC. The hierarchical sum makes
three rings: reduce-scatter inside the node, all-reduce of each chunk over the
ranks with the same place in their nodes (a *rail*), all-gather inside the node.
Compare `over my card (flat ring)` with `over my card (rails)`, and the two lines
`leaves my node`. NCCL spreads the flat ring over the NICs too, by making one
ring for each NIC; the bytes that leave a node stay those of the flat ring.

Try    --nodes 4     one GPU per node: both ways are the same ring
       --nodes 1     one node: nothing reaches the network
       --size 2400   a longer tensor
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist

sent: dict[int, int] = {}  # bytes that this rank has sent to each other rank


def pass_on(chunk: torch.Tensor, members: list[int]) -> torch.Tensor:
    """Send `chunk` to the next of `members`, and return what comes from the one before."""
    place = members.index(dist.get_rank())
    right, left = members[(place + 1) % len(members)], members[place - 1]
    arrived = torch.empty_like(chunk)
    calls = [dist.P2POp(dist.isend, chunk, right), dist.P2POp(dist.irecv, arrived, left)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    sent[right] = sent.get(right, 0) + chunk.nbytes
    return arrived


def reduce_scatter(chunks: list[torch.Tensor], members: list[int]) -> int:
    """Ring over `members`: afterwards this rank's chunk holds the whole sum; return which one it is."""
    place, n = members.index(dist.get_rank()), len(members)
    for step in range(1, n):
        chunks[(place - step - 1) % n] += pass_on(chunks[(place - step) % n], members)
    return place


def all_gather(chunks: list[torch.Tensor], members: list[int]) -> None:
    """Ring over `members`: chunk i comes from member i, and afterwards every rank holds all of them."""
    place, n = members.index(dist.get_rank()), len(members)
    for step in range(n - 1):
        chunks[(place - step - 1) % n].copy_(pass_on(chunks[(place - step) % n], members))


def flat_ring(x: torch.Tensor) -> None:
    """Sum `x` by one ring over all ranks."""
    everyone = list(range(dist.get_world_size()))
    chunks = list(x.tensor_split(len(everyone)))
    reduce_scatter(chunks, everyone)
    all_gather(chunks, everyone)


def by_rails(x: torch.Tensor, node: list[int], rail: list[int]) -> None:
    """Sum `x` inside the node, over the rail, and hand it out inside the node."""
    chunks = list(x.tensor_split(len(node)))
    mine = chunks[reduce_scatter(chunks, node)]  # the node's sum of 1/g of the tensor
    pieces = list(mine.tensor_split(len(rail)))
    reduce_scatter(pieces, rail)  # only this part uses the network: g rails work side by side
    all_gather(pieces, rail)
    all_gather(chunks, node)


def bytes_to_other_nodes(node: list[int]) -> tuple[int, int]:
    """Return the bytes over this rank's NIC, and those that left the node over all of its NICs; forget them."""
    mine = sum(count for to, count in sent.items() if to not in node)
    sent.clear()
    counts: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(counts, mine)
    return mine, sum(counts[rank] for rank in node)


def main() -> None:
    """Sum the same tensors three ways, and count the bytes that cross the network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, help="nodes; default: 2, or one per rank with an odd number of ranks")
    parser.add_argument("--size", type=int, default=24, help="numbers in each rank's tensor, four bytes each")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    nodes = args.nodes or (2 if world % 2 == 0 else world)
    if nodes < 1 or world % nodes or args.size < 1 or args.size % world:
        raise SystemExit(f"{world} ranks must be a multiple of --nodes, and --size a multiple of {world}.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    gpus = world // nodes
    node = [rank // gpus * gpus + place for place in range(gpus)]  # the GPUs that NVLink connects
    rail = [place for place in range(world) if place % gpus == rank % gpus]  # the same NIC of every node
    print(f"my node: {' '.join(map(str, node))}")
    print(f"my rail: {' '.join(map(str, rail))}")

    x = torch.arange(args.size, dtype=torch.float32, device=device) + 1000 * rank
    expected, flat, railed = x.clone(), x.clone(), x.clone()
    dist.all_reduce(expected)
    sent.clear()
    flat_ring(flat)
    my_flat, node_flat = bytes_to_other_nodes(node)
    by_rails(railed, node, rail)
    my_rails, node_rails = bytes_to_other_nodes(node)

    print(f"over my card (flat ring): {my_flat}")
    print(f"over my card (rails): {my_rails}")
    print(f"leaves my node (flat ring): {node_flat}")
    print(f"leaves my node (rails): {node_rails}")
    if rank == 0:
        print(f"Nodes: {nodes}, with {gpus} GPUs each. Tensor: {x.nbytes} bytes. All counts are bytes sent.")

    assert torch.equal(flat, expected), "the flat ring leaves the same sum as all_reduce"
    assert torch.equal(railed, expected), "three rings, node, rail, node, leave the same sum"
    assert my_rails * gpus == node_rails, "every NIC of a node carries an equal part"
    assert node_rails == 2 * (nodes - 1) * x.nbytes // nodes, "by rails a node sends 2(k-1)/k of a tensor, for k nodes"
    assert node_flat == (nodes > 1) * 2 * (world - 1) * x.nbytes // world, "a node sends 2(n-1)/n in a flat ring of n"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
