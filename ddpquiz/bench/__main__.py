"""Measure collectives under any launcher, also across machines: `torchrun ... -m ddpquiz.bench`."""

import os
import sys

from ddpquiz.bench.bench_run import BenchSamples
from ddpquiz.cli.bench import SIZES, USUAL, BenchOptions, finish, group_of, read_options
from ddpquiz.errors import UserError

USAGE = f"""\
usage: python -m ddpquiz.bench [--op OPS] [--sizes FIRST..LAST] [--seconds N] [--json]

Measure collectives over all ranks of a job. Start it with any launcher, on each machine:

  torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST:29500 -m ddpquiz.bench

  --op OPS        {",".join(USUAL)}, or all
  --sizes RANGE   bytes, in steps of 4 ({SIZES})
  --seconds N     how long to measure (40)
  --json          print JSON and nothing else

Rank 0 prints the result, and saves it in its data folder.
"""


def _options_of(words: list[str]) -> tuple[BenchOptions, bool]:
    """What a command line asks for, and whether it asks for JSON. Exits with a message where it is wrong."""
    values = {"--op": ",".join(USUAL), "--sizes": SIZES, "--seconds": "40"}
    as_json, left = False, list(words)
    while left:
        match left:
            case ["-h" | "--help", *_]:
                print(USAGE, end="")
                raise SystemExit
            case ["--json", *left]:
                as_json = True
            case [name, value, *left] if name in values:
                values[name] = value
            case [name, *_]:
                sys.exit(f"ddpquiz.bench: {name!r} does not fit here.\n{USAGE}")
    try:
        return read_options(values["--op"], values["--sizes"], "", float(values["--seconds"])), as_json
    except ValueError:
        sys.exit(f"ddpquiz.bench: {values['--seconds']!r} is not a number of seconds.")
    except Exception as wrong:
        if (message := getattr(wrong, "message", None)) is None:  # not an error of typer
            raise
        sys.exit(f"ddpquiz.bench: {message}")


def main() -> None:
    """Measure, and print and save the result on rank 0."""
    options, as_json = _options_of(sys.argv[1:])
    if "RANK" not in os.environ or int(os.environ["WORLD_SIZE"]) < 2:
        sys.exit(
            f"ddpquiz.bench: start two ranks or more with a launcher; on one machine, use `ddpquiz bench`.\n{USAGE}"
        )
    from ddpquiz.ranks.inside.collective_bench import BenchPlan, describe_ranks, join

    bench = join()
    about = describe_ranks()
    samples = BenchSamples(bench.ranks, bench.device.type, about.backend, "", about.torch)
    try:
        for each in bench.samples(BenchPlan(ops=options.ops, sizes=options.sizes, seconds=options.seconds)):
            samples.add(each.op, each.size, each.seconds, each.error)
    except KeyboardInterrupt:
        if unsaved := _finish_on_first(bench.rank, samples, about.machines, as_json=as_json):
            print(f"ddpquiz.bench: {unsaved}", file=sys.stderr, flush=True)
        os._exit(130)  # other ranks may be in a collective
    unsaved = _finish_on_first(bench.rank, samples, about.machines, as_json=as_json)
    bench.leave()
    if unsaved:
        sys.exit(f"ddpquiz.bench: {unsaved}")


def _finish_on_first(rank: int, samples: BenchSamples, machines: int, *, as_json: bool) -> UserError | None:
    """Print and save on rank 0; return why it cannot be saved."""
    if rank == 0:
        groups = [group_of(samples, machines)] if samples.seconds else []
        try:
            finish(groups, as_json=as_json, refused=[samples])
        except UserError as wrong:
            return wrong
    return None


if __name__ == "__main__":
    main()
