"""Jobs with one seeded fault each, and jobs without one: what a diagnosis must find in them.

A job is a script of some steps, each of some operations on the world or on a group. One rank, the culprit, does
something else at one operation of one step.
"""

import random
from dataclasses import dataclass

KINDS = ("skip", "extra", "swap", "shape", "dtype", "root", "exit", "raise", "kill", "sleep", "peer")
# The class that a diagnosis must find
FAULTS = {
    "skip": "missing", "extra": "missing", "swap": "order", "shape": "signature", "dtype": "signature",
    "root": "signature", "exit": "left", "raise": "dead", "kill": "dead", "sleep": "late", "peer": "order",
    "innocent": "none",
}  # fmt: skip

# How a script may single out a rank in a step: what can be read from its text, and at last what cannot
CONDITIONS = ("rank == {rank} and step == {step}", "(rank, step) == ({rank}, {step})",
              "step == {step} and rank in ({rank},)", "unlucky(step)")  # fmt: skip

HEAD = """\
import os, random, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
members = {members}
group = dist.new_group(members)
inside = rank in members


def work(step):
    time.sleep(0.001 * ((step * 7 + rank * 3) % 4))


def unlucky(step):
    return 8 * step + rank == {unlucky}


def swap(send_first, to, source):
    out, into = torch.full((3,), float(rank)), torch.zeros(3)
    if send_first:
        dist.send(out, to)
        dist.recv(into, source)
    else:
        dist.recv(into, source)
        dist.send(out, to)


for step in range({steps}):
    work(step)
"""
TAIL = "dist.destroy_process_group()\n"

OPERATIONS = {
    "all_reduce": "dist.all_reduce(torch.ones({size}){group})",
    "broadcast": "dist.broadcast(torch.ones({size}), src={root}{group})",
    "all_gather": "dist.all_gather([torch.ones({size}) for _ in range({count})], torch.ones({size}){group})",
    "reduce": "dist.reduce(torch.ones({size}), dst={root}{group})",
    "barrier": "dist.barrier({bare})",
}


@dataclass(frozen=True)
class FaultyJob:
    """A script, how many ranks run it, and what is wrong with it, in an operation of some `members`."""

    seed: int
    kind: str
    ranks: int
    script: str
    culprits: tuple[int, ...]
    members: tuple[int, ...]

    @property
    def fault(self) -> str:
        return FAULTS[self.kind]


def make_job(seed: int, kind: str | None = None) -> FaultyJob:
    """The job of a seed; of the kind that is its turn unless one is named."""
    choose = random.Random(seed)
    kind = kind or KINDS[seed % len(KINDS)]
    ranks = choose.choice((2, 3, 3, 4, 4, 5, 6, 8))
    steps = choose.randint(1, 6)
    in_group = ranks > 2 and choose.random() < 0.4
    members = sorted(choose.sample(range(ranks), choose.randint(max(2, ranks - 2), ranks - 1) if in_group else ranks))
    names = [choose.choice([*OPERATIONS]) for _ in range(choose.randint(3, 6))]
    at_step, at = choose.randrange(steps), choose.randrange(len(names))
    if kind in ("shape", "dtype"):
        names[at] = choose.choice(("all_reduce", "broadcast"))
    if kind == "root":
        names[at] = choose.choice(("broadcast", "reduce"))
    if kind == "swap":
        at = min(at, len(names) - 2)
        others = [name for name in OPERATIONS if name != names[at]]
        names[at + 1] = choose.choice(others)
    grouped = [in_group and choose.random() < 0.5 for _ in names]
    if kind == "swap":
        grouped[at + 1] = grouped[at]
    if kind == "skip" and at + 1 < len(names):
        grouped[at] = grouped[at] and grouped[at + 1]
    culprit = choose.choice(members if in_group else range(ranks))
    texts = [_operation(name, 4 + number, members, ranks, grouped[number], choose) for number, name in enumerate(names)]
    condition = random.Random(f"condition {seed}").choice(CONDITIONS).format(rank=culprit, step=at_step)
    lines = []
    for number, text in enumerate(texts):
        body = [text]
        if number == at and kind != "innocent":
            body = _faulty(kind, number, texts, condition, at_step, members, ranks, culprit, grouped[number], choose)
        if kind == "swap" and number == at + 1:
            body = []
        if kind == "peer" and number == at:  # also of ranks that are not in the group
            lines += body[:-1]
            body = body[-1:]
        lines += _inside(body, grouped[number])
    head = HEAD.format(members=members, steps=steps, unlucky=8 * at_step + culprit)
    script = head + "".join(f"    {line}\n" for line in lines) + TAIL
    culprits: tuple[int, ...] = (culprit,)
    if kind == "peer":
        culprits = tuple(sorted(_pair(culprit, ranks)))
    in_it = tuple(members if grouped[at] else range(ranks))
    return FaultyJob(seed, kind, ranks, script, () if kind == "innocent" else culprits, in_it)


def _inside(body: list[str], grouped: bool) -> list[str]:
    if not grouped or not body:
        return body
    return ["if inside:", *(f"    {line}" for line in body)]


def _operation(name: str, size: int, members: list[int], ranks: int, grouped: bool, choose: random.Random) -> str:
    those = members if grouped else list(range(ranks))
    return OPERATIONS[name].format(
        size=size, root=choose.choice(those), count=len(those), group=", group=group" if grouped else "",
        bare="group" if grouped else "",
    )  # fmt: skip


def _pair(culprit: int, ranks: int) -> tuple[int, int]:
    return culprit, (culprit + 1) % ranks


def _faulty(
    kind: str, at: int, texts: list[str], condition: str, at_step: int, members: list[int], ranks: int, culprit: int,
    grouped: bool, choose: random.Random,
) -> list[str]:  # fmt: skip
    text = texts[at]
    those = members if grouped else list(range(ranks))
    match kind:
        case "skip":
            return [f"if not ({condition}):", f"    {text}"]
        case "extra":
            extra = choose.choice(("dist.all_reduce(torch.ones(77){})", "dist.broadcast(torch.ones(77), src=%d{})"))
            extra = extra.replace("%d", str(culprit)).format(", group=group" if grouped else "")
            return [f"if {condition}:", f"    {extra}", text]
        case "swap":
            return [f"if {condition}:", f"    {texts[at + 1]}", f"    {text}", "else:", f"    {text}",
                    f"    {texts[at + 1]}"]  # fmt: skip
        case "shape":
            wrong = text.replace(f"torch.ones({4 + at})", f"torch.ones({4 + at} + 3 * ({condition}))")
            return [wrong]
        case "dtype":
            return [text.replace(f"torch.ones({4 + at})",
                                 f"torch.ones({4 + at}, dtype=torch.float64 if {condition} else torch.float32)")]  # fmt: skip
        case "root":
            name = "src" if "src=" in text else "dst"
            right = text.partition(f"{name}=")[2].partition(",")[0].rstrip(")")
            other = next(each for each in those if each != int(right))
            return [text.replace(f"{name}={right}", f"{name}={other} if {condition} else {right}")]
        case "exit":
            return [f"if {condition}:", f"    {choose.choice(['sys.exit()', 'break'])}", text]
        case "raise":
            return [f"if {condition}:", "    raise ValueError('bad batch')", text]
        case "kill":
            return [f"if {condition}:", "    os.kill(os.getpid(), signal.SIGKILL)", text]
        case "sleep":
            return [f"if {condition}:", "    time.sleep(3600)", text]
        case "peer":
            one, other = _pair(culprit, ranks)
            return [f"if rank in ({one}, {other}) and step == {at_step}:",
                    f"    swap(False, {one} + {other} - rank, {one} + {other} - rank)", text]  # fmt: skip
    raise AssertionError(kind)
