"""Gradient compression: send fewer bytes, keep the rest for the next step.

    torchrun --nproc-per-node 4 demos/compression.py

One model is trained in four ways, side by side: with whole gradients, in
half precision (fp16), and compressed by PowerSGD with and without error
feedback. PowerSGD sends two thin matrices of r columns each, whose product
is close to the gradient. The rest is an error: with feedback each rank adds
it to its next gradient, so it arrives late; without feedback it is lost.
Compare the bytes first, and then the four losses: which one lags behind?

Try    --method topk                send the largest numbers and their positions
       --columns 4                  r = 4: twice the bytes, and a smaller error
       --method topk --columns 4    just as many bytes for top-k
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist

ROWS, COLS, SAMPLES, LR, STEPS = 16, 16, 64, 0.15, 24
WAYS = ("whole", "fp16", "feedback", "no feedback")


def mean_of(x: torch.Tensor) -> torch.Tensor:
    """Return the mean of all ranks' `x`, in the precision of `x`."""
    x = x / dist.get_world_size()  # before the sum, which might overflow in fp16
    dist.all_reduce(x)
    return x


class Compressor:
    """One way of sending gradients: its error, and the bytes that this rank sent in the last step."""

    def __init__(self, way: str, method: str, r: int, device: torch.device) -> None:
        self.way, self.r, self.bytes = way, r, 0
        self.compress = self.low_rank if method == "powersgd" else self.largest
        self.error = torch.zeros(ROWS, COLS, device=device)
        self.q = torch.randn(COLS, r, generator=torch.Generator().manual_seed(1)).to(device)  # the same on all ranks

    def mean(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mean of all ranks' `x`, and count its bytes."""
        self.bytes += x.nbytes
        return mean_of(x)

    def send(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the mean gradient as all ranks receive it."""
        self.bytes = 0
        if self.way == "whole":
            return self.mean(gradient)
        if self.way == "fp16":  # as torch's fp16_compress_hook does for DDP
            return self.mean(gradient.half()).float()
        wanted = gradient + self.error
        arrived, sent = self.compress(wanted)
        if self.way == "feedback":
            self.error = wanted - sent
        return arrived

    def low_rank(self, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """PowerSGD (Vogels et al. 2019): a step of power iteration with averaged factors; torch: powerSGD_hook."""
        p = torch.linalg.qr(self.mean(wanted @ self.q)).Q
        self.q = self.mean(wanted.T @ p)
        return p @ self.q.T, p @ self.q.T

    def largest(self, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Top-k: each rank's largest numbers, at different places on each rank, so they are gathered and then added."""
        places = wanted.abs().flatten().topk(self.r * (ROWS + COLS) // 2).indices.int()
        numbers = wanted.flatten()[places]
        self.bytes = places.nbytes + numbers.nbytes
        world, sent, arrived = dist.get_world_size(), torch.zeros_like(wanted), torch.zeros_like(wanted)
        sent.view(-1)[places] = numbers
        everyone = [[torch.empty_like(each) for _ in range(world)] for each in (places, numbers)]
        dist.all_gather(everyone[0], places)
        dist.all_gather(everyone[1], numbers)
        for their_places, their_numbers in zip(*everyone, strict=True):
            arrived.view(-1)[their_places] += their_numbers / world
        return arrived, sent


def gradient(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean gradient of a linear regression over these ranks' samples."""
    return (x.mT @ (x @ weights - y)).mean(dim=0) / SAMPLES


def train(ways: list[Compressor], x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    """Train in all ways at once, one step of each in turn; return the weights and losses at the end."""
    weights, losses = torch.zeros(len(ways), ROWS, COLS, device=x.device), []
    mine = slice(dist.get_rank(), dist.get_rank() + 1)  # this rank's part of the samples
    for step in range(STEPS):
        for number, way in enumerate(ways):
            own, carried = gradient(weights[number], x[mine], y[mine]), way.error
            arrived = way.send(own)
            weights[number] -= LR * arrived
            if step == STEPS - 1 and way.way == "feedback":
                wanted, left = mean_of(own + carried), mean_of(way.error)
                assert torch.allclose(arrived + left, wanted, atol=1e-5), (
                    "with feedback nothing is lost: the part that is not sent is kept"
                )
        losses = [(x @ each - y).square().mean().item() for each in weights]
        if step % 2 == 1:
            for way, loss in reversed([*zip(WAYS, losses, strict=True)]):
                print(f"loss ({way}): {loss:.3f}")
            print(f"unsent error (norm): {mean_of(ways[2].error).norm():.2f}")
    behind = [way for way, loss in zip(WAYS, losses, strict=True) if loss > 1.5 * losses[0]]
    print(f"far behind: {', '.join(behind) or 'none'}")
    for name, way in zip(("whole", "fp16", "compressed"), ways, strict=False):
        print(f"bytes a step ({name}): {way.bytes}")
    if dist.get_rank() == 0:
        print(f"Training is not over after {STEPS} steps: feedback may be a little ahead of")
        print("whole gradients, because a late part can speed training up or slow it down.")
    return weights, losses


def check_weights(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    """Compare the weights with those of one process on all samples, and with those of the other ranks."""
    alone = torch.zeros_like(weights[0])
    for _ in range(STEPS):
        alone -= LR * gradient(alone, x, y)
    assert torch.allclose(weights[0], alone, atol=1e-4), "whole gradients train like one process on all samples"
    replicas = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(replicas, weights)
    assert all(torch.equal(weights, replica) for replica in replicas), "in all four ways, ranks hold the same weights"


def check_ways(losses: list[float], sent: list[int], method: str, r: int) -> None:
    """Compare the bytes that were sent with the formulas, and the losses with each other."""
    whole, fp16, feedback, without = losses
    assert sent[1] * 2 == sent[0], "half precision sends half of the bytes"
    assert abs(fp16 - whole) < 0.01 * whole, "half precision changes the loss by less than 1%"
    if method == "powersgd":
        assert sent[2] == 4 * r * (ROWS + COLS), "PowerSGD sends (rows + columns) * r numbers instead of rows * columns"
    else:
        assert sent[2] == 4 * r * (ROWS + COLS), "top-k sends k numbers and their k places"
    assert without > 1.5 * whole, "without error feedback the loss stays behind"
    assert feedback - whole < 0.1 * (without - whole), "with error feedback, at the same number of bytes, it does not"


def main() -> None:
    """Train four ways at once and compare bytes and losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=["powersgd", "topk"], default="powersgd", help="how to compress gradients")
    parser.add_argument("--columns", type=int, default=2, choices=[2, 3, 4], help="columns of PowerSGD's thin matrices")
    args = parser.parse_args()
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))

    # All samples are known to all, so that one process can check the result; a rank trains with its own.
    data = torch.Generator().manual_seed(2)
    x, noise = (torch.randn(dist.get_world_size(), SAMPLES, width, generator=data).to(device) for width in (ROWS, COLS))
    y = x @ torch.randn(ROWS, COLS, generator=data).to(device) + 0.5 * noise

    names = {"powersgd": f"PowerSGD, r = {args.columns}", "topk": f"top-k, k = {args.columns * (ROWS + COLS) // 2}"}
    print(f"compressed: {ROWS} x {COLS} numbers, by {names[args.method]}")
    ways = [Compressor(way, args.method, args.columns, device) for way in WAYS]
    weights, losses = train(ways, x, y)
    check_weights(weights, x, y)
    check_ways(losses, [way.bytes for way in ways], args.method, args.columns)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
