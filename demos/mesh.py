"""Device mesh: the ranks stand in a grid, with a process group along each axis.

    torchrun --nproc-per-node 4 demos/mesh.py

A large model is trained with several kinds of parallelism at once: dp
replicas, each of pp stages, each split over tp ranks, and N = dp * pp * tp.
Ranks are numbered along the last axis first, so tensor parallelism, which
sends most, runs between neighbors on the same machine.
Look at `tp group` and `dp group`, and at the sum of the ranks in each. A
DTensor states its layout for each axis: here the matrix is sharded by rows
over dp and by columns over tp.

Try    --tp 4           one axis of 4: no data parallelism
       --tp 1 --pp 2    two stages of two: neighbors are replicas
       --hsdp           rows over tp, copies over dp: hybrid sharding
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

AXES = ("dp", "pp", "tp")


def compare_groups(mesh: DeviceMesh, places: dict[str, int], strides: dict[str, int]) -> None:
    """Compare the group along each axis with the ranks whose places differ on this axis only."""
    rank, world = dist.get_rank(), dist.get_world_size()
    groups = {axis: dist.get_process_group_ranks(mesh.get_group(axis)) for axis in AXES}
    for axis, members in groups.items():
        if axis != "pp" or mesh["pp"].size() > 1:
            print(f"{axis} group: {' '.join(map(str, members))}")
    line = {axis: list(range(rank - places[axis] * strides[axis], world, strides[axis])) for axis in AXES}
    for axis in AXES:
        assert groups[axis] == line[axis][: mesh[axis].size()], "along an axis ranks are a fixed stride apart, 1 for tp"
        assert dist.get_rank(mesh.get_group(axis)) == places[axis], (
            "in a group a rank's number is its place on the axis"
        )
    everybody = [None] * world
    dist.all_gather_object(everybody, groups)
    for axis in AXES:
        distinct = {tuple(theirs[axis]) for theirs in everybody}
        assert sorted(member for group in distinct for member in group) == list(range(world)), (
            "each rank is in exactly one group of an axis"
        )
        if axis != "tp":
            assert set(groups[axis]) & set(groups["tp"]) == {rank}, "groups of two axes have one rank in common"

    # The same groups without a mesh. All ranks make all groups in the same order, including those they are not in.
    tp = mesh["tp"].size()
    for start in range(0, world, tp):
        group = dist.new_group(range(start, start + tp))
        if rank in range(start, start + tp):
            assert dist.get_process_group_ranks(group) == groups["tp"], (
                "new_group by hand makes the tp groups of the mesh"
            )


def sum_along_axes(mesh: DeviceMesh, places: dict[str, int], strides: dict[str, int]) -> None:
    """A collective over one axis stays in its group; the other groups of the axis do the same at the same time."""
    rank = dist.get_rank()
    for axis in AXES:
        total = torch.tensor(float(rank), device=mesh.device_type)
        dist.all_reduce(total, group=mesh.get_group(axis))
        if axis != "pp" or mesh["pp"].size() > 1:
            print(f"sum of ranks over {axis}: {total.item():g}")
        n = mesh[axis].size()
        first = rank - places[axis] * strides[axis]
        right = n * first + strides[axis] * n * (n - 1) // 2
        assert total == right, "an all-reduce over an axis adds up its own group only"


def lay_out(mesh: DeviceMesh, places: dict[str, int], hsdp: bool) -> None:
    """Distribute a matrix as a DTensor: for each axis of the mesh sharded along a dimension, or replicated."""
    dp, tp = mesh["dp"].size(), mesh["tp"].size()
    layout = {"dp": Shard(0), "pp": Replicate(), "tp": Shard(1)}
    if hsdp:
        layout = {"dp": Replicate(), "pp": Replicate(), "tp": Shard(0)}
    whole = torch.arange(float(64 * dp * tp), device=mesh.device_type).view(8 * dp, 8 * tp)
    sharded = distribute_tensor(whole, mesh, list(layout.values()))
    part = whole.chunk(tp)[places["tp"]] if hsdp else whole.chunk(dp)[places["dp"]].chunk(tp, dim=1)[places["tp"]]
    (top, left), (bottom, right) = (divmod(int(part.flatten()[end]), 8 * tp) for end in (0, -1))
    print(f"matrix rows/columns: {top}-{bottom}/{left}-{right}")
    if dist.get_rank() == 0:
        print(f"The whole matrix has {8 * dp} rows and {8 * tp} columns.")
    assert torch.equal(sharded.to_local(), part), (
        "which part of a DTensor a rank has follows from its place in the grid"
    )


def main() -> None:
    """Make a mesh, look at its groups, and lay out a tensor on it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tp", type=int, help="ranks that split each layer; default: 2 if the number of ranks is even")
    parser.add_argument("--pp", type=int, default=1, help="stages of the pipeline")
    parser.add_argument("--hsdp", action="store_true", help="lay out the matrix as hybrid-sharded weights")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    pp, tp = args.pp, args.tp or (2 if world % 2 == 0 else 1)
    if min(pp, tp) < 1 or world % (pp * tp):
        raise SystemExit(f"{world} ranks are not a multiple of pp * tp = {pp} * {tp}: change --pp, --tp or --nproc.")
    dp = world // (pp * tp)

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # In numbers: rank = (place on dp * pp + place on pp) * tp + place on tp.
    mesh = init_device_mesh(device.type, (dp, pp, tp), mesh_dim_names=AXES)
    places = {"dp": rank // (pp * tp), "pp": rank // tp % pp, "tp": rank % tp}
    strides = {"dp": pp * tp, "pp": tp, "tp": 1}
    if rank == 0:
        print("Axes: dp data, pp pipeline, tp tensor parallelism. The grid of ranks:")
        for number, replica in enumerate(mesh.mesh.tolist()):  # its stages, each with its ranks
            print(f"   dp {number}    {'   |   '.join(' '.join(map(str, stage)) for stage in replica)}")
        print(f"Ranks of one tp group stand side by side{', a bar separates two stages of pp' if pp > 1 else ''}.")
        if pp == 1:
            print("With pp = 1 each rank is a pp group of its own: these are left out.")
    print(f"place (dp pp tp): {' '.join(map(str, mesh.get_coordinate()))}")
    assert list(mesh.get_coordinate()) == list(places.values()), "ranks are numbered along tp first, then pp, then dp"
    compare_groups(mesh, places, strides)
    sum_along_axes(mesh, places, strides)
    lay_out(mesh, places, args.hsdp)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
