"""Parameter server: servers keep the weights, workers bring gradients.

    torchrun --nproc-per-node 4 demos/parameter_server.py

Rank 0 is the server and keeps the weights of a linear regression. A worker
pulls them, computes a gradient on its own samples (a sleep of 50 ms, or 300
on the slow worker) and pushes it.
No rank waits for the slow worker, the last rank. So the others finish first,
and by the time the slow one pushes, the weights have changed: look at the
age of its gradients, the number of updates between its pull and its push.
Compare the bytes sent, too: the server sends the model to every worker.

Try    --mode sync     all wait for the slow worker; no gradient is old
       --slow 1        a different worker is slow
       --servers 2     each server keeps and sends half of the weights
"""

import argparse
import os
import time
from collections import Counter
from datetime import timedelta

import torch
import torch.distributed as dist

KEYS, WIDTH, SAMPLES, LR = 8, 2, 64, 0.1  # the weights: KEYS rows of WIDTH numbers; SAMPLES of each worker
PULL, PUSH = 0, 1
moved = Counter()  # bytes of weights and gradients, without the requests of two numbers each


def send(tensor: torch.Tensor, to: int) -> None:
    """Send weights or a gradient, and count the bytes."""
    dist.send(tensor.contiguous(), dst=to)
    moved["sent"] += tensor.nbytes


def receive(like: torch.Tensor, source: int) -> torch.Tensor:
    """Receive weights or a gradient, and count the bytes."""
    tensor = torch.empty_like(like, memory_format=torch.contiguous_format)
    dist.recv(tensor, src=source)
    moved["received"] += tensor.nbytes
    return tensor


def serve(weights: torch.Tensor, workers: int, steps: int, sync: bool) -> tuple[int, list[int]]:
    """Answer pulls and apply pushes to `weights`; return the number of updates and the ages of all gradients."""
    version, ages, waiting, gradients = 0, [], [], {}
    request = torch.empty(2, dtype=torch.int64)
    while len(ages) < workers * steps:
        worker = dist.recv(request)  # from whoever comes first
        kind, pulled_version = request.tolist()
        if kind == PULL:
            waiting.append(worker)
            # Synchronous: wait for all workers. Asynchronous: answer at once, except at the start, which all share.
            if len(waiting) == workers or (version > 0 and not sync):
                for peer in waiting:
                    dist.send(torch.tensor(version), dst=peer)
                    send(weights, peer)
                waiting.clear()
        else:
            gradients[worker] = receive(weights, worker)
            ages.append(version - pulled_version)
            dist.send(torch.tensor(ages[-1]), dst=worker)
            # Synchronous: one update with the mean of all gradients. Asynchronous: a small one for each gradient.
            if len(gradients) == workers or not sync:
                weights -= LR * sum(gradients[peer] for peer in sorted(gradients)) / workers
                gradients.clear()
                version += 1
    return version, ages


def work(x: torch.Tensor, y: torch.Tensor, servers: int, steps: int, pause: float) -> int:
    """Pull, compute and push, `steps` times, on this worker's samples; return the age of its oldest gradient."""
    weights = torch.empty(KEYS, WIDTH, device=x.device)
    version, age = torch.zeros(servers, dtype=torch.int64), torch.zeros(servers, dtype=torch.int64)
    oldest = 0
    for _ in range(steps):
        for server in range(servers):
            dist.send(torch.tensor([PULL, 0]), dst=server)
            dist.recv(version[server], src=server)
            weights[server::servers] = receive(weights[server::servers], server)
        gradient = gradient_of_loss(weights, x, y)
        time.sleep(pause)  # a model worth distributing would compute for a while
        for server in range(servers):
            dist.send(torch.tensor([PUSH, version[server]]), dst=server)
            send(gradient[server::servers], server)
            dist.recv(age[server], src=server)
        print(f"gradient age: {' '.join(map(str, age.tolist()))}")
        oldest = max(oldest, *age.tolist())
    return oldest


def gradient_of_loss(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean squared error, shaped like the weights."""
    return (2 * x.T @ (x @ weights.flatten() - y) / len(y)).view_as(weights)


def main() -> None:
    """Be a server or a worker, then compare weights and bytes with what they should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=("sync", "async"), default="async", help="do workers wait for each other?")
    parser.add_argument("--servers", type=int, default=1, help="how many ranks keep the weights")
    parser.add_argument("--slow", type=int, metavar="RANK", help="the slow worker; the last rank unless given")
    parser.add_argument("--steps", type=int, default=6, help="steps of each worker")
    args = parser.parse_args()
    rank, world, sync = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.mode == "sync"
    servers, workers, steps = args.servers, world - args.servers, args.steps
    if workers < 1 or not 1 <= servers <= KEYS or steps < 1:
        raise SystemExit(f"This takes 1 to {KEYS} servers, 1 step and 1 worker: at least {max(servers, 1) + 1} ranks.")
    slow = world - 1 if args.slow is None else args.slow
    if not servers <= slow < world:
        raise SystemExit(f"--slow {slow}: the workers are ranks {servers} to {world - 1}.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    # Requests travel on the CPU even then: NCCL cannot receive from whoever comes first.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))

    generator = torch.Generator().manual_seed(0)  # the same samples on every rank, of which a worker uses its share
    x = torch.randn(workers * SAMPLES, KEYS * WIDTH, generator=generator).to(device)
    y = x @ torch.linspace(-1, 1, KEYS * WIDTH, device=device)
    weights = torch.zeros(KEYS, WIDTH, device=device)
    start = time.perf_counter()

    # 1. Servers serve and workers work. The keys of server s are the rows s, s + servers, s + 2 * servers, ...
    pause = 0.3 if rank == slow else 0.05
    print(f"role: {'server' if rank < servers else 'slow worker' if rank == slow else 'worker'}")
    if rank < servers:
        share = workers * weights[rank::servers].nbytes  # S bytes of its keys, m workers: m S each way (Li et al. 2014)
        version, ages = serve(weights[rank::servers], workers, steps, sync)
        oldest = max(ages)
    else:
        share = weights.nbytes
        mine = slice((rank - servers) * SAMPLES, (rank - servers + 1) * SAMPLES)
        oldest = work(x[mine], y[mine], servers, steps, pause)
    print(f"oldest gradient: {oldest}")
    print(f"done after: {time.perf_counter() - start:.2f} s")
    print(f"bytes sent a step: {moved['sent'] // steps}")
    assert moved["sent"] == moved["received"] == steps * share, (
        "with m workers the servers send m models and receive m gradients a step; a worker sends and receives one"
    )

    # 2. Compare with one process that takes as many steps, with all the samples at once.
    alone = torch.zeros_like(weights)
    for _ in range(steps):
        alone -= LR * gradient_of_loss(alone, x, y)
    if rank < servers:
        off = (weights - alone)[rank::servers].abs().max().item()
        assert version == steps * (1 if sync else workers), (
            "sync updates the weights once per step, async once per gradient"
        )
        if sync:
            assert max(ages) == 0, "sync: every gradient comes from the current weights"
        elif workers > 1:  # all first gradients are of version 0, and the last of them meets version m-1 or a later one
            assert max(ages) >= workers - 1, "async: with m workers the oldest gradient is at least m-1 updates old"
        if sync or workers == 1:
            assert off < 1e-6, "without old gradients, the weights equal those of one process with all samples"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
