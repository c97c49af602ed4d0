"""Resharding a checkpoint: saved in one layout of ranks, loaded in another.

    torchrun --nproc-per-node 4 demos/reshard_checkpoint.py

A matrix of 96 x 96 numbers is sharded over all ranks by rows. Each rank
writes its own shard to its own .distcp file, so no rank has to hold the whole
matrix; .metadata says which part is in which file. Then another mesh loads it
by columns, so each rank needs a piece of every file.
torch.distributed.checkpoint reads those pieces into the new shards, and the
matrix is the same, bit for bit. Look at the map of which rank saved and which
loaded each part, and at `pieces read`.

Try    --load mesh          over 2 x N/2 ranks: by rows and by columns
       --load fewer         half of the ranks continue alone
       --load replicate     every rank reads all
       --load rows          as it was saved: every rank reads one piece
"""

import argparse
import math
import os
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, zeros

SIZE, STEP = 96, 7  # rows and columns, shared evenly by 1, 2, 3, 4, 6 or 8 ranks; a number to be saved with the matrix


class Reader(dcp.FileSystemReader):
    """Reads a checkpoint from files, and counts the pieces."""

    pieces = 0

    def read_data(self, plan: dcp.LoadPlan, planner: dcp.LoadPlanner) -> torch.futures.Future:
        """Read the pieces of the plan, and count them."""
        self.pieces += len(plan.items)
        return super().read_data(plan, planner)


def save(whole: torch.Tensor, folder: Path) -> DTensor:
    """Save by rows. Saving is a collective: all ranks call it, and each writes what it has."""
    rank, world = dist.get_rank(), dist.get_world_size()
    saved = distribute_tensor(whole, DeviceMesh(whole.device.type, torch.arange(world)), [Shard(0)])
    dcp.save({"matrix": saved, "step": torch.tensor(STEP)}, checkpoint_id=folder)
    files = sorted(folder.glob("*.distcp"))
    print("saved rows/columns: {}-{}/{}-{}".format(*part(saved)))
    print(f"my file (bytes): {files[rank].stat().st_size}")
    if rank == 0:
        print(f"Written: {' '.join(path.name for path in sorted(folder.iterdir()))}.")
        print(
            f"The {SIZE} x {SIZE} matrix has {whole.nbytes} bytes, a shard {whole.nbytes // world}; the rest of a file"
        )
        print("says what is in it, and one file also has the number of the step.")
    assert len(files) == world, "each rank has written a file of its own"
    if world > 1:
        assert max(path.stat().st_size for path in files) < whole.nbytes, "no file holds the whole matrix"
    return saved


def load(whole: torch.Tensor, folder: Path, layout: str) -> DTensor | None:
    """Load on another mesh, into a matrix of zeros that is already sharded as it should be: loading is in place."""
    world, device = dist.get_world_size(), whole.device
    shapes = {"mesh": (2, world // 2), "fewer": (world // 2,)}
    places = {"rows": [Shard(0)], "mesh": [Shard(0), Shard(1)], "replicate": [Replicate()]}
    shape = shapes.get(layout, (world,))
    mesh = DeviceMesh(device.type, torch.arange(math.prod(shape)).view(shape))  # made by all ranks, members or not
    if dist.get_rank() >= mesh.size():
        print("loaded rows/columns: none")
        return None
    loaded = zeros(SIZE, SIZE, device_mesh=mesh, placements=places.get(layout, [Shard(1)]))
    state, reader = {"matrix": loaded, "step": torch.tensor(0)}, Reader(folder)
    dcp.load(state, storage_reader=reader, process_group=mesh.get_group() if layout == "fewer" else None)
    print("loaded rows/columns: {}-{}/{}-{}".format(*part(loaded)))
    print(f"pieces read: {reader.pieces - 1}")  # and one for the step
    print(f"step loaded ({STEP} saved): {state['step'].item()}")
    assert torch.equal(loaded.full_tensor(), whole), "the matrix is the same, bit for bit, in any layout"
    assert state["step"] == STEP, "the number that all ranks had in common is loaded too"
    covered = len(loaded.to_local()) // (SIZE // world)  # saved shards whose rows are among those of the new one
    assert reader.pieces - 1 == covered, "a rank reads one piece of each saved shard that its new shard overlaps"
    return loaded


def part(tensor: DTensor) -> tuple[int, int, int, int]:
    """What this rank has of a matrix whose numbers count up row by row: first and last row, first and last column."""
    own = tensor.to_local()
    (top, left), (bottom, right) = (divmod(int(corner), SIZE) for corner in (own[0, 0], own[-1, -1]))
    return top, bottom, left, right


def drawn(parts: list[tuple[int, int, int, int] | None]) -> list[str]:
    """Map the matrix in N x N blocks, each with the ranks that hold it."""
    starts = range(0, SIZE, SIZE // len(parts))
    has = [(str(rank), *part) for rank, part in enumerate(parts) if part]
    return [
        " ".join("".join(who for who, t, b, le, r in has if t <= row <= b and le <= column <= r) for column in starts)
        for row in starts
    ]


def main() -> None:
    """Save in one layout, load in another; compare every number, and count files and pieces."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    loads = ("rows", "columns", "mesh", "fewer", "replicate")
    parser.add_argument("--load", choices=loads, default="columns", help="the layout that loads the checkpoint")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if SIZE % world:
        raise SystemExit(f"{world} ranks cannot evenly share {SIZE} rows: start 1, 2, 3, 4, 6 or 8.")
    if args.load in ("mesh", "fewer") and world % 2:
        raise SystemExit(f"--load {args.load} halves the ranks: it needs an even number of them, not {world}.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # A folder that all ranks can write to: on several machines it must be a shared one.
    own_folder = tempfile.TemporaryDirectory() if rank == 0 else None
    names = [own_folder.name if own_folder else None]
    dist.broadcast_object_list(names, src=0)
    folder = Path(names[0])

    whole = torch.arange(float(SIZE * SIZE), device=device).view(SIZE, SIZE)  # to compare with
    saved = save(whole, folder)
    loaded = load(whole, folder, args.load)

    # Who saved and who loaded what; then remove the folder.
    own_parts = [part(tensor) if tensor is not None else None for tensor in (saved, loaded)]
    all_parts = [None] * world
    dist.all_gather_object(all_parts, own_parts)
    if own_folder:
        print(f"Which rank saved and which loaded each {SIZE // world} x {SIZE // world} block of the matrix:")
        for before, after in [("saved by", "loaded by"), *zip(*map(drawn, zip(*all_parts, strict=True)), strict=True)]:
            print(f"   {before:{max(10, 2 * world)}}  {after}")
        own_folder.cleanup()
    if device.type == "cpu":
        dist.monitored_barrier()  # right after other collectives, a rank on Gloo may abort as it ends (torch 2.13)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
