"""A catalog of two concepts, one of which has every kind of content, and its pages as text."""

import io
from dataclasses import replace

from ddpquiz.curriculum.catalog import Catalog, Track
from ddpquiz.curriculum.concept import (
    Card,
    CodeProof,
    Command,
    Concept,
    DemoLink,
    DemoProof,
    Kind,
    LessonStep,
    Level,
    Line,
    Mistake,
    Option,
    Prompt,
    Question,
    Trap,
    Variable,
)
from ddpquiz.curriculum.loading import load
from ddpquiz.terminal.kit import layout, style

HELD = Card(
    "ring",
    "held",
    Level.EASY,
    "What does each rank hold after `all_reduce`?",
    "The sum of all tensors.",
    "dist",
)
SENT = Question(
    "ring",
    "sent",
    Level.MEDIUM,
    Kind.NUMBER,
    "{n} ranks all-reduce {s} bytes. How many does each send?",
    variables=(Variable("n", ("4",)), Variable("s", ("1200",))),
    answer="2 * (n - 1) / n * s",
    unit="bytes",
    traps=(Trap("2 * s", "That is the limit for very many ranks."),),
    steps=("A chunk has {s} / {n} = {=s/n} bytes.", "There are 2(N-1) steps."),
    check="Between S and 2 S.",
    proof=DemoProof("n", "allreduce", "bytes sent by the ring", ("--size", "{=s/4}")),
)
BUG = Question(
    "ring",
    "bug",
    Level.HARD,
    Kind.CHOICE,
    "Which line mends it?",
    code="if rank == 0:\n    dist.all_reduce(x)",
    options=(
        Option("dist.all_reduce(x)", right=True, code=True),
        Option("dist.barrier()", why="A barrier moves no data.", code=True),
    ),
    proof=CodeProof("2", "print(1)\n<option>"),
    source="dist",
)
ORDER = Question(
    "ring", "order", Level.EASY, Kind.ORDER, "In order?", lines=(Line("reduce-scatter"), Line("all-gather"))
)
PRINTS = Question(
    "ring",
    "prints",
    Level.EASY,
    Kind.OUTPUT,
    "What does it print?",
    code="print(rank)",
    answer="[4.0]",
    traps=(Trap("[1.0]", "That is the mean."),),
    proof=CodeProof("4"),
)
EXPLAIN = Prompt("ring", "why", "Explain the ring.", "Count.", "Every link is busy.", ("all links work",))
RING = Concept(
    id="ring",
    track="collectives",
    title="The ring",
    idea="Everybody sends to the right, so that every link works all the time and none of them carries more than two tensors.",
    why="After a backward pass each rank holds *its own* gradients.\nOne root would be a bottleneck.",
    steps=(
        LessonStep("""## In two phases

Call `dist.all_reduce(x)`, see [the docs](https://pytorch.org), and mind <rank> &amp; [bold]markup[/bold].

    rank 0 -> rank 1
       ^         |
    rank 3 <- rank 2

```python
dist.all_reduce(x)  # in place
```

- a list
- of two

| phase | moves |
| --- | --- |
| first | chunks |"""),
    ),
    needs=("ops",),
    commands=(
        Command(
            "torchrun --nproc-per-node 4 demos/allreduce.py",
            "Starts four ranks.",
            {"--nproc-per-node": "ranks to start"},
            "[rank 0] sum: 10\n[rank 1] sum: 10",
        ),
    ),
    mistakes=(Mistake("Log the sum as the mean.", "It is N times too large.", "Divide by `world_size`."),),
    remember=("2(N-1) steps.", "Bytes hardly grow with N."),
    demos=(DemoLink("allreduce", "the `bytes` of each rank", ("--size", "300"), 4, "sent"),),
    cards=(HELD,),
    questions=(SENT, BUG, ORDER, PRINTS),
    explain=(EXPLAIN,),
)
OPS = replace(RING, id="ops", title="Collective operations", needs=(), cards=(), questions=(), explain=())
CATALOG = Catalog((Track("collectives", "Collectives", ("ops", "ring")),), (OPS, RING), {})


def drawn(page, width=80):
    file = io.StringIO()
    layout.show(style.console(file, width=width), page)
    return file.getvalue()


SHIPPED = load()
