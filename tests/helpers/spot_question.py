"""A `spot` question as YAML, and as the frozen data that the reader makes of it."""

from ring_file import changed, read

from ddpquiz.curriculum.concept import CodeProof, Kind, Level, Question, Shows, Trap

CODE = """\
x = torch.tensor([1.0, float(rank)])
dist.all_reduce(x)
mean = x / world_size

# Only one rank prints.
if rank == 0:
    dist.all_reduce(mean)
    print(mean.tolist())
dist.barrier()
"""
SPOT_YAML = """\
  - id: one-call-too-many
    level: hard
    kind: spot
    ask: The script hangs. Which line is at fault?
    code: |
      x = torch.tensor([1.0, float(rank)])
      dist.all_reduce(x)
      mean = x / world_size

      # Only one rank prints.
      if rank == 0:
          dist.all_reduce(mean)
          print(mean.tolist())
      dist.barrier()
    answer: dist.all_reduce(mean)
    fix: "    mean = mean.round()"
    traps:
      - {answer: dist.all_reduce(x), why: Every rank makes this call.}
    hints: [Count the calls of each rank.]
    steps: ["Rank 1 makes two calls, and rank 0 three."]
    check: All ranks make the same calls.
    proof: {ranks: 2, hangs: true, fixed: {0: "[1.0, 0.0]"}}
"""
SPOT = Question(
    "ring",
    "one-call-too-many",
    Level.HARD,
    Kind.SPOT,
    "The script hangs. Which line is at fault?",
    code=CODE.rstrip("\n"),
    answer="dist.all_reduce(mean)",
    fix="    mean = mean.round()",
    traps=(Trap("dist.all_reduce(x)", "Every rank makes this call."),),
    hints=("Count the calls of each rank.",),
    steps=("Rank 1 makes two calls, and rank 0 three.",),
    check="All ranks make the same calls.",
    proof=CodeProof("2", shows=Shows(hangs=True), fixed=Shows(by_rank={0: "[1.0, 0.0]"})),
)


def spot_file(*edits):
    """The concept file that fits with the question in it, after edits of the question."""
    text = SPOT_YAML
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return changed(("explain:\n", text + "explain:\n"))


def spot_complaints(*edits):
    """The complaints about the file, with lines counted from the first line of the question."""
    text = spot_file(*edits)
    first = text[: text.index("  - id: one-call-too-many")].count("\n")
    found = sorted(read(text).page.complaints)
    return [f"{each.line - first}:{each.column}: {each.text}" for each in found]
