"""What a tool says of scripts with a known fault, and of scripts without one, beside what torch itself says.

    python benchmarks/faults/score.py                        ddpquiz, and torchrun beside it; half an hour
    python benchmarks/faults/score.py --only ddp --keep out  some of the scripts; what was said stays in out
    python benchmarks/faults/score.py --said out             scores that again, and runs nothing
    python benchmarks/faults/score.py --tool "mytool -n {ranks} {script}"

truth.yaml says what is wrong in each script, and README.md how a text is scored. A tool runs in a folder of its own,
with a copy of the script that has neither its name nor its docstring, so that the answer cannot be read there. After
--limit seconds it gets an interrupt, as from ctrl-c.
"""

import argparse
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
BIN = Path(sys.executable).parent
COPY = "train.py"  # what a script is called while a tool runs it
OURS = f"{BIN / 'ddpquiz'} run --nproc {{ranks}} --no-stay --timeout 6 {{script}}"
TORCH = f"{BIN / 'torchrun'} --standalone --nproc-per-node {{ranks}} {HERE / 'short_timeout.py'} {{script}}"

# Said of a job that did not do its work, each of these is false
ALL_IS_WELL = r"no fault found|no rank waits\b(?!.*not known)|\bdone in \d"
RANKS = r"\branks? (\d+(?:(?:, and |, | and |[-–])\d+)*)"
BLAME = (
    RANKS + r" (?:is|are|was|were|has|have)? ?(?:late\b|dead\b|died|killed|crashed|left early|finished early|at fault)"
)
ROOT_CAUSE = r"Root Cause \(first observed failure\):.*?\brank +: (\d+)"  # torchrun
# Said of a job without a fault, each of these is false
ALARM = (
    r"Traceback|Error\b|mismatch|\bdiffer|deadlock|\bhangs?\b|did not call|never (?:call|join|sen|wait)|without wait"
    r"|\bwrong\b|\bstuck\b|waits? for rank|is (?:late|dead)|no progress|does not reduce"
)
UNSURE = (
    r"(?:does not|do not|cannot|could not) (?:know|tell|say)|not known|unknown|nothing tells|\bprobably\b|may be wrong"
    r"|not certain|perhaps"
)


@dataclass(frozen=True)
class Truth:
    """What is wrong in a script; `says` and `never` are regular expressions, and without a `says` nothing is wrong."""

    name: str
    kind: str
    nproc: int
    ends: str = "done"  # or hang, or error
    ranks: tuple[int, ...] = ()  # at fault; none where no rank differs from the others
    lines: tuple[int, ...] = ()  # each of them counts as the place
    says: tuple[str, ...] = ()  # one of them must occur
    never: tuple[str, ...] = ()

    @property
    def is_innocent(self) -> bool:
        return not self.says


@dataclass(frozen=True)
class Score:
    """What a text says: `false` quotes what is not true."""

    cause: bool
    place: bool
    unsure: bool
    false: str = ""

    @property
    def is_right(self) -> bool:
        return self.cause and self.place and not self.false


def load_truth() -> dict[str, Truth]:
    given = yaml.safe_load((HERE / "truth.yaml").read_text())
    return {
        name: Truth(name, each["kind"], each["nproc"], each.get("ends", "done"), *(
            tuple(each.get(key, ())) for key in ("ranks", "lines", "says", "never")
        ))
        for name, each in given.items()
    }  # fmt: skip


def score(truth: Truth, said: str, status: int = 0) -> Score:
    """Score what a tool said of a script, and the status with which it ended."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    lines, flat = text.splitlines(), " ".join(text.split())
    found = re.search(ALARM, flat)
    if truth.is_innocent:
        false = found[0] if found else f"status {status}" if status else ""
        return Score(cause=not false, place=not false, unsure=False, false=false)
    cause = any(re.search(each, flat, re.IGNORECASE) for each in truth.says)
    named = {rank for numbers in re.findall(RANKS, flat, re.IGNORECASE) for rank in expand(numbers)}
    named |= {int(rank) for rank in re.findall(r"\[(?:rank|default)(\d+)\]", flat)}
    named |= {int(rank) for rank in re.findall(r"\brank +: (\d+)", flat)}
    places = {int(line) for pair in re.findall(rf'{COPY}:(\d+)|{COPY}", line (\d+)', text) for line in pair if line}
    place = {*truth.ranks} <= named and bool({*truth.lines} & places)
    return Score(cause, place, bool(re.search(UNSURE, flat, re.IGNORECASE)), find_false(truth, flat, lines))


def find_false(truth: Truth, flat: str, lines: Iterable[str]) -> str:
    """What a text says that is not true, or nothing."""
    for pattern in truth.never + ((ALL_IS_WELL,) if truth.ends != "done" else ()):
        for line in lines:
            if found := re.search(pattern, line, re.IGNORECASE):
                return found[0]
    for found in [*re.finditer(BLAME, flat, re.IGNORECASE), *re.finditer(ROOT_CAUSE, flat)]:
        if truth.ranks and not {*expand(found[1])} <= {*truth.ranks}:
            return f"root cause: rank {found[1]}" if found[0].startswith("Root Cause") else found[0]
    return ""


def expand(numbers: str) -> list[int]:
    """The ranks in `0, 1 and 3` or `0-2`."""
    ranks = list[int]()
    for first, last in re.findall(r"(\d+)(?:[-–](\d+))?", numbers):
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def run(command: str, truth: Truth, limit: float) -> tuple[str, int]:
    """Run a tool on a script, and return what it printed and its status."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        script = Path(folder) / COPY
        script.write_text(without_docstring((SCRIPTS / f"{truth.name}.py").read_text()))
        words = shlex.split(command.format(ranks=truth.nproc, script=COPY))
        environment = os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        with (Path(folder) / "said").open("w+") as said:
            process = subprocess.Popen(
                words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it left behind
            said.seek(0)
            return said.read(), process.wait()


def without_docstring(text: str) -> str:
    """The same lines, of which the first one, the docstring, is empty."""
    return "\n" + text.partition("\n")[2]


def table(scores: dict[Truth, Score]) -> str:
    rows = [
        "| kind | scripts | cause | place | both, nothing false | else: says it is not sure | false |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    kinds = list(dict.fromkeys(truth.kind for truth in scores if not truth.is_innocent))
    for kind in [*kinds, "all faults"]:
        of = [
            s for truth, s in scores.items() if truth.kind == kind or (kind == "all faults" and not truth.is_innocent)
        ]
        counts = (
            len(of), sum(s.cause for s in of), sum(s.place for s in of), sum(s.is_right for s in of),
            sum(s.unsure and not s.is_right and not s.false for s in of), sum(bool(s.false) for s in of),
        )  # fmt: skip
        rows.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    innocent = [s for truth, s in scores.items() if truth.is_innocent]
    if innocent:
        rows.append(f"| innocent | {len(innocent)} | | | {sum(s.is_right for s in innocent)} | | "
                    f"{sum(bool(s.false) for s in innocent)} |")  # fmt: skip
    return "\n".join(rows)


def describe(found: Score) -> str:
    """One word or more for a score."""
    if found.is_right:
        return "right"
    parts = [
        word for word, is_so in (("cause", found.cause), ("place", found.place), ("unsure", found.unsure)) if is_so
    ]
    return (" and ".join(parts) or "neither cause nor place") + (f"; FALSE: {found.false}" if found.false else "")


def gist(said: str) -> str:
    """The line of a text that says most: torch's last error, or else what comes last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\w+Error: |Signal \d+|exitcode +: -", line)]
    errors = [line for line in errors if "ChildFailedError" not in line] or lines[-1:]
    return errors[0][:150] if errors else "(nothing)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=OURS, help="a command line with {ranks} and {script}, or nothing")
    parser.add_argument("--no-torch", action="store_true", help="do not run torchrun beside the tool")
    parser.add_argument("--only", default="", help="scripts whose name or kind contains this")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds that a script gets")
    parser.add_argument("--keep", type=Path, help="a folder for what was said")
    parser.add_argument("--said", type=Path, help="score what an earlier run has kept there")
    options = parser.parse_args()
    tools = {"tool": options.tool, "torch": "" if options.no_torch else TORCH}
    tools = {tool: command for tool, command in tools.items() if command}
    chosen = [truth for truth in load_truth().values() if options.only in truth.name or options.only in truth.kind]
    scores: dict[str, dict[Truth, Score]] = {tool: {} for tool in tools}
    with contextlib.suppress(KeyboardInterrupt):  # the table of what was tried until then
        for truth in chosen:
            print(f"{truth.name} ({truth.kind})", flush=True)
            for tool, command in tools.items():
                if options.said:
                    status, _, said = (options.said / f"{truth.name}.{tool}").read_text().partition("\n")
                else:
                    said, status = run(command, truth, options.limit)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{truth.name}.{tool}").write_text(f"{status}\n{said}")
                found = scores[tool][truth] = score(truth, said, int(status))
                more = f": {gist(said)}" if tool == "torch" else ""
                print(f"  {tool}: {describe(found)}{more}", flush=True)
    for tool, of in scores.items():
        print(f"\n{tool}: {tools[tool]}\n\n{table(of)}")


if __name__ == "__main__":
    main()
