"""Why one run of a check failed: the rank, the line of the learner's file, and the numbers, in a sentence."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from ddpquiz.analysis.events import ClaimText, Event, Issued, Output, Raised, RankPosition
from ddpquiz.analysis.operation import POINT_TO_POINT, Operation
from ddpquiz.analysis.root_cause import failed_in_communication
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.source_text import frames_in
from ddpquiz.analysis.verdict import SIZES
from ddpquiz.curriculum.lab import Lab, LabRun
from ddpquiz.ranks.lab_verdict import LabVerdict, Outcome

_NAMED_LINE = re.compile(r"^`\w+` raised \w+ in line (\d+)")  # what `raised` of lab_tools prints
_WRONG_CALL = re.compile(r"\(\) (takes|missing|got an unexpected|got multiple)|positional argument")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run of a check that is over: its events, its last state, and why we ended it, if we did.

    It is `complete` if we ended it when every rank had finished its check.
    """

    run: LabRun
    events: tuple[Event, ...]
    seen: RunState
    stopped: str = ""
    complete: bool = False


def find_failure(lab: Lab, file: Path, finished: FinishedRun) -> LabVerdict | None:
    """Return the verdict on a run that broke a claim, raised, hung or did not finish; None if it went to its end."""
    seen = finished.seen
    if finished.complete:
        return None
    if finished.stopped:
        return _stopped(finished, file)
    if broken := [(claim, ranks) for claim, verdict, ranks in seen.verdicts() if verdict == "broken"]:
        claim, ranks = broken[0]
        return _broken_claim(claim, ranks, file, finished)
    if seen.end and not seen.end.ok:
        if failed_in_communication(seen) and (unlike := _unlike_sizes(file, finished)):
            return unlike
        raised = seen.raised.get(seen.end.rank) if seen.end.rank is not None else None
        if raised or (seen.end.rank is None and seen.raised and not seen.hung):
            return _raised(raised or min(seen.raised.values(), key=lambda each: each.time), lab, file, finished)
        return _ended_badly(finished, lab, file)
    left = [
        rank for rank in range(finished.run.ranks) if "checked" not in seen.rows or rank not in seen.rows["checked"]
    ]
    if left:
        sentence = f"Rank {left[0]} exited before the check was over. A file that is checked must not end the process."
        return _verdict("no end", finished, rank=left[0], sentence=sentence)
    return None


def _broken_claim(claim: ClaimText, ranks: Sequence[int], file: Path, finished: FinishedRun) -> LabVerdict:
    text = claim.text
    values = {rank: _difference(rank, finished) or "not as claimed" for rank in ranks}
    rank = ranks[0]
    found = _difference(rank, finished)
    line, after = _place(rank, found, file, finished)
    what = f", {found}. This must hold: {text}." if found else f", this does not hold: {text}."
    sentence = f"On rank {rank} of {finished.run.ranks}{what}{after}"
    held = finished.seen.claims.get(claim.line, {})
    others = {
        other: "as expected" if other in held else "did not get there"
        for other in range(finished.run.ranks)
        if other not in values
    }
    unlike = _unlike_sizes(file, finished)  # Gloo takes a message that is too short without a word
    return _verdict(
        "claim", finished, rank=rank, line=line, sentence=sentence, caught=text,
        advice=f"{unlike.sentence} {unlike.advice}" if unlike else "",
        values=dict(sorted({**values, **others}.items())),
    )  # fmt: skip


def _difference(rank: int, finished: FinishedRun) -> str:
    """Return what the last comparison of a rank printed."""
    printed = finished.seen.rows.get("differs", {}).get(rank, [])
    return printed[-1] if printed else ""


def _place(rank: int, found: str, file: Path, finished: FinishedRun) -> tuple[int, str]:
    """Return the line of the learner's file that broke a claim, or 0, and a sentence on what came before.

    The line is known if the difference names it, or if the rank called operations in no other line with this seed. The
    last of several operations is often innocent.
    """
    if named := _NAMED_LINE.search(found):
        return int(named[1]), ""
    path, calls = str(file.absolute()), list[Operation]()
    for event in finished.events:
        if isinstance(event, Output) and event.rank == rank and event.label == "seed":
            calls.clear()
        elif isinstance(event, Issued) and event.rank == rank and event.operation.file == path:
            calls.append(event.operation)
    if not calls:
        return 0, ""
    last = f"{calls[-1].op} in line {calls[-1].line}"
    if len({call.line for call in calls}) == 1:
        return calls[-1].line, f" The only operation that your file called there is {last}."
    return 0, f" Its last operation was {last}; the fault need not be there."


def _raised(raised: Raised, lab: Lab, file: Path, finished: FinishedRun) -> LabVerdict:
    path = str(file.absolute())
    frames = frames_in(raised.traceback)
    lines = [frame.line for frame in frames if frame.file == path]
    line = lines[-1] if lines else 0
    message = raised.message.strip().partition("\n")[0]
    rank = raised.rank
    if raised.error == "NotImplementedError" and line:
        sentence = f"Line {line} is still to be written: {message}."
        return _verdict("unwritten", finished, rank=rank, line=line, sentence=sentence)
    if raised.error == "SystemExit" and not lines:  # the check says what is missing
        return _verdict("error", finished, rank=rank, sentence=raised.message)
    if not lines and raised.error == "TypeError" and _WRONG_CALL.search(message):
        called = next((frame for frame in reversed(frames) if frame.file == str(lab.check)), None)
        where = f" (check.py, line {called.line})" if called else ""
        sentence = f"The check cannot call your code{where}: {message}."
        return _verdict("error", finished, rank=rank, sentence=sentence)
    if not lines:
        sentence = (
            f"Rank {rank} of {finished.run.ranks}: {raised.error} in the check after your code returned: {message}."
        )
        return _verdict("error", finished, rank=rank, sentence=sentence)
    sentence = f"Rank {rank} of {finished.run.ranks} raised {raised.error} in line {line}: {message}".rstrip(": ")
    return _verdict("error", finished, rank=rank, line=line, sentence=f"{sentence.rstrip('.')}.")


def _unlike_sizes(file: Path, finished: FinishedRun) -> LabVerdict | None:
    """Return the verdict on a receive that asks for another size than its send brings.

    Gloo closes the connection when a message is too long, and every rank may then raise in an innocent line.
    """
    path = str(file.absolute())
    for _, collective in finished.seen.timeline.unlike():
        calls = {call.operation.op: (rank, call.operation) for rank, call in collective.calls.items()}
        if calls.keys() != {*POINT_TO_POINT}:
            continue
        (source, sent), (to, received) = calls["send"], calls["recv"]
        if sent.bytes != received.bytes:
            sends, receives = (_sized(each, path, with_dtype=sent.dtype != received.dtype) for each in (sent, received))
            sentence = f"Rank {source} sends {sends}, but rank {to} receives {receives}."
            rank, line = (to, received.line) if received.file == path else (source, sent.line * (sent.file == path))
            return _verdict("error", finished, rank=rank, line=line, sentence=sentence, advice=SIZES)
    return None


def _sized(operation: Operation, path: str, *, with_dtype: bool) -> str:
    """Return `4 numbers in line 12`, or `4 numbers of float32 in line 12`."""
    count = sum(map(prod, operation.shapes))
    place = f"line {operation.line}" if operation.file == path else f"{Path(operation.file).name}:{operation.line}"
    what = f"{'number' if count == 1 else 'numbers'}{f' of {operation.dtype}' if with_dtype else ''}"
    return f"{count} {what} in {place}"


def _ended_badly(finished: FinishedRun, lab: Lab, file: Path) -> LabVerdict:
    """Return the verdict on ranks that hang, whose calls do not match, or whose process died."""
    seen, path = finished.seen, str(file.absolute())
    end = seen.end
    waits = tuple(_in_check(each, lab, path) for each in seen.hung.ranks) if seen.hung else ()
    line = next((each.line for each in waits if each.file == path and each.line), 0)
    hangs = bool(seen.hung)
    for rank, said in sorted(seen.rows.get("stuck", {}).items()):
        if hangs:  # the check knows better why
            line = next((each.line for each in waits if each.rank == rank and each.file == path), line)
            return _verdict("hang", finished, rank=rank, line=line, sentence=said[-1], waits=waits)
    sentence = end.why if end else ""
    named = [int(each) for each in re.findall(rf"\b{re.escape(file.name)}:(\d+)", sentence)]
    if named and line not in named:  # the script began the operation in one line, and waits for it in another
        line = named[0]
    return _verdict(
        "hang" if hangs else "error", finished, rank=end.rank if end else None, line=line,
        sentence=sentence, advice=end.mend if end else "", waits=waits,
    )  # fmt: skip


def _in_check(position: RankPosition, lab: Lab, path: str) -> RankPosition:
    """Return a position with the line of check.py if the check waits there, be it called by the learner's code."""
    inner = itertools.takewhile(lambda frame: frame.file != path, frames_in(position.stack))
    called = next((frame for frame in inner if frame.file == str(lab.check)), None)
    return replace(position, file=called.file, line=called.line) if called else position


def _stopped(finished: FinishedRun, file: Path) -> LabVerdict:
    path = str(file.absolute())
    end, places = finished.seen.end, finished.seen.places
    rank, line = next(((rank, line) for rank, (name, line) in sorted(places.items()) if name == path), (None, 0))
    advice = end.mend if end else ""
    return _verdict("no end", finished, rank=rank, line=line, sentence=finished.stopped, advice=advice)


def _verdict(outcome: Outcome, finished: FinishedRun, **fields: object) -> LabVerdict:
    """Return a verdict with the seed of the rank at fault, which is in the order of events the last that it printed."""
    seeds = [event.value for event in finished.events if isinstance(event, Output) and event.label == "seed"]
    seed = int(seeds[-1]) if seeds and seeds[-1] and seeds[-1].isdecimal() else None
    fields.setdefault("caught", outcome)
    return LabVerdict(outcome=outcome, seconds=0, runs=0, seed=seed, **fields)  # type: ignore[arg-type]
