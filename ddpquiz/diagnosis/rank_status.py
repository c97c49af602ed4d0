"""What became of each rank: it finished, failed by itself or because of another rank, or still runs.

`find_statuses` says it of every rank. `explain_failure` says why the first rank failed, and what to do about it: it
knows what signals and exit statuses of a distributed script mean; `known_errors.py` knows its exceptions.
"""

import math
import re
import signal
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from ddpquiz.diagnosis.diagnosis import Diagnosis, RankPosition, call_at
from ddpquiz.diagnosis.known_errors import (
    DIFFERENT_MODELS,
    OUT_OF_MEMORY,
    advise_raised,
    explain_different_models,
    explain_text,
)
from ddpquiz.errors import FAULT
from ddpquiz.events.event import JOIN, UNUSED, Exited, Hung, Raised, RankStack
from ddpquiz.events.formatting import code_at, format_place, format_ranks, frames_in, own_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.plural import plural

GRACE = 0.3  # seconds after the first failure in which the other ranks may still report; then they are stopped

# What a rank raises because another one has failed or does not arrive: never the cause.
_CONSEQUENCE = re.compile(
    r"Connection (closed|reset|was likely closed)|Broken pipe|Timed out waiting|timeout caused pair closure|"
    r"wait timeout after|Socket Timeout|Connection refused|failed to pass monitoredBarrier|recvValue failed|"
    r"sendBytes failed|client socket has timed out|Timed out after \d+ seconds waiting|timed out connecting|"
    r"received errors while waiting for send/recv from rank|remote process exited or there was a network error|"
    r"NCCL communicator was aborted|ncclRemoteError|Watchdog caught collective operation timeout|recvBytes failed|"
    r"Failed to recv, got 0 bytes"
)
_TIMED_OUT = re.compile(
    r"(?:Timed out waiting|wait timeout after|failed to pass monitoredBarrier in) (?P<ms>\d{1,12}) ?ms|"
    r"Timed out after (?P<s>\d{1,9}) seconds waiting"
)


_LONGEST = 300  # characters of a message that a sentence quotes
_MOST_MESSAGES = 4  # of different ranks that a sentence quotes
_WITHOUT_GRADIENT = re.compile(r"did not receive grad for rank \d+: (?P<indices>[\d ]+\d)")
_PLURAL = {
    "has": "have", "was": "were", "is": "are", "does": "do", "waits": "wait", "its record ends": "their records end",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankStatus:
    """`kind` is "late" for a rank that still runs; `words` continue the sentence "rank 2 ...".

    `file` and `line` are where it stands or died, if that is known, and `then` goes on after that place. `limit` says
    what is not known. `seen` is True if a stack shows where it stands.
    """

    kind: Literal["late", "left", "dead", "absent"]
    words: str
    file: str = ""
    line: int = 0
    limit: str = ""
    absent: bool = False
    seen: bool = False
    then: str = ""

    @property
    def plural_words(self) -> str:
        """What continues the sentence "they ..."; an error that is quoted stays as it is."""
        if self.words.startswith("raised "):
            return self.words
        words, tick, code = self.words.partition("`")
        return (
            re.sub(r"\b(?:has|was|is|does|waits|its record ends)\b", lambda word: _PLURAL[word[0]], words) + tick + code
        )

    def position(self, rank: int) -> RankPosition:
        return RankPosition((rank,), self.words + self.then, self.file, self.line)


def what_became_of(statuses: Mapping[int, RankStatus]) -> str:
    """What became of the ranks for which others wait; each place once."""
    ranks_with = defaultdict[RankStatus, list[int]](list)
    for rank, status in statuses.items():
        ranks_with[status].append(rank)
    parts = []
    for status, ranks in ranks_with.items():
        who = format_ranks(ranks) if len(ranks_with) > 1 else "it" if len(ranks) == 1 else "they"
        place = f" at {format_place(status.file, status.line)}" if status.line else ""
        parts.append(f"{who} {status.words if len(ranks) == 1 else status.plural_words}{place}{status.then}")
    return "; ".join(parts)


NO_RECORD = RankStatus(
    "absent", "left no record", absent=True,
    limit="Nothing of it was recorded: it died, it was busy and so noticed nothing, or its file was not collected.",
)  # fmt: skip


def find_statuses(state: RunState, absent: Collection[int], stacks: Collection[RankStack]) -> dict[int, RankStatus]:
    """The status of each rank at the time when the first one failed, or now.

    `absent` are ranks of which nothing was recorded, with their status if they are a mapping, and `stacks` those that
    ranks wrote.
    """
    first = min((time for _, time, _ in _failures(state)), default=None)
    lost = any(is_consequence(raised.message) and not has_timed_out(raised) for raised in _raised(state).values())
    silent = _silent_first(state, absent) if lost else None
    stack_of = {stack.rank: stack for stack in stacks}
    statuses = {}
    for rank in range(state.ranks):
        if rank in absent:
            statuses[rank] = absent[rank] if isinstance(absent, Mapping) else NO_RECORD
        elif rank == silent:
            file, line = state.places.get(rank, ("", 0))
            words = "is gone: its record ends there, and the others lost the connection"
            statuses[rank] = RankStatus("dead", words, file, line)
        else:
            statuses[rank] = _status(rank, state, first, stack_of.get(rank))
    return statuses


def _status(rank: int, state: RunState, first: float | None, stack: RankStack | None) -> RankStatus:
    raised, exited = _raised(state).get(rank), state.exited.get(rank)
    if raised and not is_effect(raised):
        file, line = own_frame(raised.traceback, state.script)
        return RankStatus("dead", f"raised {raised.error}: {_first_line(raised)}".rstrip(": "), file, line)
    if exited and not raised and exited.status == 0:
        return RankStatus("left", "has finished")
    in_time = exited is not None and (first is None or exited.time <= first + GRACE)
    if exited and not raised and not exited.stopped and in_time:
        return RankStatus("dead", _ended(exited), *state.places.get(rank, ("", 0)))
    if rank in state.finished and not raised:
        return RankStatus("left", "has finished")
    if (gone := state.destroyed.get(rank)) is not None:
        return RankStatus("left", "has destroyed its process groups", gone.file, gone.line)
    if stack and not stack.line:
        return RankStatus("late", "does not respond: it is stopped, or busy in native code", seen=True)
    file, line = (stack.file, stack.line) if stack else state.places.get(rank, ("", 0))
    if raised and raised.error == "KeyboardInterrupt" and not stack:  # its traceback shows where it stood then
        file, line = own_frame(raised.traceback, state.script)
        return RankStatus("late", "had not reached this call when an interrupt came", file, line, seen=True)
    if stands := standing_in(rank, state):
        expression, what_for = stands
        return RankStatus("late", f"waits in {expression}", file, line, seen=stack is not None, then=what_for)
    words = f"has not reached this call{' and was last seen' if line else ''}"
    return RankStatus("late", words, file, line, seen=stack is not None)


def standing_in(rank: int, state: RunState) -> tuple[str, str] | None:
    """The expression in which the main thread of a rank stands still outside of communication, and for what it waits.

    Both are parts of a sentence, between which the place stands; the second one may be empty.
    """
    stands = state.stands.get(rank)
    if stands is None or state.blocked_in(rank):
        return None
    return f"`{stands.stands_in}`", f" for {stands.waits_for}" if stands.waits_for else ""


def _silent_first(state: RunState, absent: Collection[int]) -> int | None:
    """The rank that ended without a word, before all others of that kind."""
    quiet = [rank for rank in range(state.ranks) if rank not in {*state.raised, *state.exited, *absent}]
    return min(quiet, key=lambda rank: state.last_event_at.get(rank, 0.0), default=None)


def _ended(exited: Exited) -> str:
    if exited.status < 0:
        return "was killed because memory ran out" if exited.memory else f"was ended by signal {-exited.status}"
    return f"exited with status {exited.status}"


def _first_line(raised: Raised) -> str:
    """The first line of a message; of a long one, which its traceback shows whole, the first sentences."""
    line = raised.message.strip().partition("\n")[0]
    if len(line) <= _LONGEST:
        return line
    end = line.rfind(". ", 0, _LONGEST)
    return f"{line[: end + 1]} ..." if end > 0 else f"{line[:_LONGEST]}..."


# Whether ranks failed, and why: the rank that failed first, not the ranks that only noticed.


def is_consequence(message: str) -> bool:
    """Whether a rank raised an exception with this message only because another one failed or did not arrive."""
    return bool(_CONSEQUENCE.search(message))


def is_effect(raised: Raised) -> bool:
    """Whether a rank raised this only because another one failed or did not arrive, or because it was interrupted."""
    return raised.error == "KeyboardInterrupt" or is_consequence(raised.message)


def has_timed_out(raised: Raised) -> bool:
    """Whether a rank raised this because another one did not arrive in time."""
    return is_consequence(raised.message) and bool(
        re.search("imed out|wait timeout|failed to pass monitoredBarrier", raised.message)
    )


def timeout_of(state: RunState, ranks: Collection[int]) -> float:
    """The seconds after which some of the ranks gave up waiting for others; 0 if none did."""
    return max((_waited(state.raised[rank].message) for rank in ranks if rank in state.raised), default=0.0)


def _waited(message: str) -> float:
    """The time-out that a message names, in seconds; 0 if it names none."""
    found = _TIMED_OUT.finditer(message)
    return max((float(each["s"] or 0) + float(each["ms"] or 0) / 1000 for each in found), default=0.0)


def failed_in_communication(state: RunState) -> bool:
    """Whether every failed rank failed while it communicated."""
    texts = [raised.message for raised in state.raised.values()]
    texts += [_stderr(rank, state) for rank, exited in state.exited.items() if exited.status == -signal.SIGABRT]
    return bool(texts) and all(_CONSEQUENCE.search(text) or "gloo" in text.lower() for text in texts)


def has_failed(state: RunState) -> bool:
    """Whether a run has failed: its ranks hang, or one of them failed."""
    return state.hung is not None or bool(_failures(state))


def hang_behind_timeouts(now: float, stacks: tuple[RankStack, ...], state: RunState) -> Hung | None:
    """The hang that made every failed rank fail: it waited as long as the time-out of its group allows."""
    texts = [raised.message for raised in state.raised.values()]
    waited = [_waited(text) for text in texts]
    if not any(waited) or not all(consequence for consequence, _, _ in _failures(state)):
        return None
    return Hung(now, max(waited), tuple(_before_timeout(stack, state) for stack in stacks))


def _before_timeout(stack: RankStack, state: RunState) -> RankStack:
    """Where a rank stood before it timed out, if it did."""
    raised = state.raised.get(stack.rank)
    if raised is None:
        return stack
    last = state.last_call.get(stack.rank)
    file, line = own_frame(raised.traceback, state.script)
    waited_in = state.communicates_in(stack.rank) or (last.operation.op if last else JOIN)
    return RankStack(stack.rank, waited_in, file, line, raised.traceback)


def _raised(state: RunState) -> dict[int, Raised]:
    """What ranks raised; without what they raise when a hang has been noticed and they are ended."""
    end = state.hung.time if state.hung else math.inf
    return {rank: raised for rank, raised in state.raised.items() if raised.time <= end}


def _failures(state: RunState) -> list[tuple[bool, float, int]]:
    """Of each rank that failed: whether only another rank's failure made it fail, when, and the rank."""
    failures = [(is_effect(raised), raised.time, raised.rank) for raised in _raised(state).values()]
    failures += [
        (False, exited.time, rank)
        for rank, exited in state.exited.items()
        if exited.status and not exited.stopped and rank not in state.raised
    ]
    return sorted(failures)


def explain_failure(state: RunState, *, of_consequence: bool = False) -> Diagnosis | None:
    """Why the first rank failed by itself, and which ranks failed in the same way; None if none did.

    With `of_consequence`, also of a rank that failed only because of another one.
    """
    failures = _failures(state)
    if not failures or (failures[0][0] and not of_consequence):
        return None
    first = failures[0][2]
    if raised := state.raised.get(first):
        return _explain_exception(raised, state)
    status = state.exited[first].status
    ranks = [rank for consequence, _, rank in failures
             if not consequence and rank not in state.raised and state.exited[rank].status == status]  # fmt: skip
    sentence, advice = _explain_exit(min(ranks), state)
    return _dead(ranks, f"{sentence}{_also(ranks, 'ended in the same way')}", advice)


def _dead(ranks: Collection[int], sentence: str, advice: str) -> Diagnosis:
    return Diagnosis("dead", tuple(sorted(ranks)), sentence, advice=advice)


def _also(ranks: Collection[int], what: str) -> str:
    """A sentence on the ranks beside the first one, if there are any."""
    _, *others = sorted(ranks)
    return f" {format_ranks(others).capitalize()} {what}." if others else ""


def _explain_exception(first: Raised, state: RunState) -> Diagnosis:
    frame = own_frame(first.traceback, state.script)
    is_cause = not is_effect(first)
    ranks = [raised.rank for raised in state.raised.values()
             if raised.error == first.error and own_frame(raised.traceback, state.script) == frame
             and not (is_cause and is_effect(raised))]  # fmt: skip
    rank = min(ranks)  # which of them raised first is chance
    raised = state.raised[rank]
    if raised.error == "SystemExit":
        return _dead(ranks, *_explain_sys_exit(raised, _where(*frame), state))
    if DIFFERENT_MODELS.search(raised.message):
        return explain_different_models(state, _where(*frame))
    messages = {each: _full_text(state.raised[each], frame) for each in ranks}
    if unlike := _explain_unlike_parameters(messages, _where(*frame)):
        return _dead(ranks, *unlike)
    explained = {each: explain_text(text, each, _where(*frame), state) for each, text in messages.items()}
    known = {each: text for each, text in explained.items() if text}
    if len(known) == len(ranks):
        alike = _alike({each: sentence for each, (sentence, _) in known.items()})
        sentences = [known[group[0]][0] for group in alike[:_MOST_MESSAGES]]
        sentences[0] += _also(alike[0], "raised the same error")
        more = f" {plural(len(alike) - _MOST_MESSAGES, 'other message')} are left out." * (len(alike) > _MOST_MESSAGES)
        return _dead(ranks, " ".join(sentences) + more, known[rank][1])
    said = {each: _first_line(state.raised[each]) for each in ranks}
    alike = _alike(said)
    place = f" at {format_place(*frame)}" if frame[0] else ""
    raised_there = f"{format_ranks(sorted(ranks)).capitalize()} raised {raised.error}{place}"
    if len(alike) == 1:
        return _dead(ranks, f"{raised_there}: {said[rank]}".rstrip(": "), advise_raised(messages[rank]))
    texts = [f"{format_ranks(each)}: {said[each[0]]}" for each in alike]
    texts[_MOST_MESSAGES:] = [f"{len(alike) - _MOST_MESSAGES} more"] * (len(alike) > _MOST_MESSAGES)
    return _dead(ranks, f"{raised_there} with different messages. {'; '.join(texts)}", advise_raised(messages[rank]))


def _full_text(raised: Raised, frame: tuple[str, int]) -> str:
    """An exception as _MEANINGS reads it: its type, its message, and the line of code that raised it."""
    return f"{raised.error}: {raised.message}\n{code_at(raised.traceback, *frame)}"


def _alike(said: Mapping[int, str]) -> list[list[int]]:
    """Ranks whose texts are equal, whatever number the rank has there and wherever an object lay."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for rank in sorted(said):
        text = re.sub(rf"\brank {rank}\b", "rank", said[rank], flags=re.IGNORECASE)
        groups[re.sub(r"\b0x[0-9a-f]+", "", text)].append(rank)
    return list(groups.values())


_LEAVE_OUT_THE_SAME = (
    "Let all ranks leave out the same parameters: where chance decides, draw it from a generator with the same seed on "
    "all ranks. Or pass find_unused_parameters=True, which lets each rank leave out others."
)


def _explain_unlike_parameters(messages: Mapping[int, str], where: str) -> tuple[str, str] | None:
    """What it means that DDP misses the gradients of other parameters on each rank; None if they are the same ones."""
    missed: defaultdict[str, list[int]] = defaultdict(list)
    named: dict[str, str] = {}
    for rank, text in sorted(messages.items()):
        if not (found := _WITHOUT_GRADIENT.search(text)):
            return None
        missed[found["indices"]].append(rank)
        named[found["indices"]] = text.rpartition(UNUSED)[2].partition("\n")[0] if UNUSED in text else ""
    if len(missed) < 2:
        return None
    has_names = all(named.values()) and len({*named.values()}) == len(named)
    texts = [
        f"{format_ranks(ranks)}: {named[indices] if has_names else f'parameters {indices} (by index)'}"
        for indices, ranks in missed.items()
    ]
    more = f"; and {len(texts) - _MOST_MESSAGES} more" if len(texts) > _MOST_MESSAGES else ""
    sentence = (
        f"In the step before, the ranks left out different parameters, so DDP raised at {where}. "
        f"Without a gradient were, on {'; on '.join(texts[:_MOST_MESSAGES])}{more}."
    )
    return sentence, _LEAVE_OUT_THE_SAME


def _explain_sys_exit(raised: Raised, where: str, state: RunState) -> tuple[str, str]:
    rank, message = raised.rank, raised.message
    if message.strip() and not re.fullmatch(r"\d+", message):
        return message, ""  # sys.exit("a sentence")
    if message == "2" and (printed := re.search(r": error: (.+)$", _stderr(rank, state))):  # argparse
        return (
            f"The script rejects its arguments: {printed[1].rstrip('.')}.",
            "What stands after the script, or after a demo's --, goes to it; `--help` there lists its options.",
        )
    status = message.strip() or "1"  # Python's for a text, also for an empty one
    sentence = f"Rank {rank} exited with status {status} at {where}."
    handled = raised.traceback.rpartition("\nTraceback ")[0]  # the exception in whose handler it exits
    printed_error = _error_in(handled, state.script) or _printed_error(rank, state)
    return _after_error(sentence, printed_error) or (sentence, "The script calls sys.exit() there.")


def _explain_exit(rank: int, state: RunState) -> tuple[str, str]:
    exited, last = state.exited[rank], state.last_call.get(rank)
    after = f", after {call_at(last.operation)}" if last else ""
    if exited.status < 0:
        return _explain_signal(exited, after, state)
    if exited.status == FAULT and "ddpquiz" in _stderr(rank, state):
        return f"ddpquiz itself failed in rank {rank}; its traceback is above.", "Please report it."
    sentence = f"Rank {rank} exited with status {exited.status}{after}."
    by_itself = "It exited without an exception, for example through os._exit()."
    return _after_error(sentence, _printed_error(rank, state)) or (sentence, by_itself)


# An error that a script catches and prints before it exits.

_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(?P<frames>(?:[ \t]+.*\n)+)(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$",
    re.MULTILINE,
)
_SPEAKS_OF_ERROR = re.compile(
    r"\b(error|exception|failed|fatal|cannot|could not)\b|\w(Error|Exception)\b", re.IGNORECASE
)


def _error_in(text: str, script: str) -> tuple[str, str] | None:
    """The last exception of which a text has the traceback, and its place."""
    found = [*_TRACEBACK.finditer(text)]
    return (found[-1]["error"], _where(*own_frame(found[-1]["frames"], script))) if found else None


def _printed_error(rank: int, state: RunState) -> tuple[str, str] | None:
    """What a rank printed of an error: the exception and its place, or its last line if that speaks of an error."""
    lines = [line.text for line in state.log.get(rank, ())]
    if found := _error_in("\n".join(lines), state.script):
        return found
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return (last, "") if _SPEAKS_OF_ERROR.search(last) else None


def _after_error(sentence: str, printed: tuple[str, str] | None) -> tuple[str, str] | None:
    """How a rank exited after it had printed an error, and what to do about that error."""
    if printed is None:
        return None
    error, where = printed
    if where:
        return f"{sentence} Before that, its script caught an exception at {where}: {error}", advise_raised(error)
    return f"{sentence} The last line that it printed: {error}", _PRINT_WHOLE


_PRINT_WHOLE = "Let the exception end the rank (`raise`), or print its traceback: then its line is known."


def _explain_signal(exited: Exited, after: str, state: RunState) -> tuple[str, str]:
    rank, number, last = exited.rank, -exited.status, state.last_call.get(exited.rank)
    if number == signal.SIGKILL and exited.memory:
        why = f"The kernel killed rank {rank} because memory ran out{after}."
        return why, OUT_OF_MEMORY.format(ranks=state.ranks)
    if number == signal.SIGKILL:
        return (
            f"Rank {rank} was killed by SIGKILL{after}.",
            "Something outside the script killed it: kill -9, or a batch system that enforces a limit.",
        )
    where = _where(last.operation.file, last.operation.line) if last else "an unknown place"
    if known := explain_text(_stderr(rank, state), rank, where, state):
        return known
    # Real-time signals have numbers only.
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if frames_in(exited.stack):
        place = _where(*own_frame(exited.stack, state.script, newest_first=True))
        return f"Rank {rank} crashed with {name} at {place}.", "Native code crashed; the stack is above."
    return f"Rank {rank} was ended by {name}{after}.", ""


def _stderr(rank: int, state: RunState) -> str:
    return "\n".join(line.text for line in state.lines if line.rank == rank and line.stream == "stderr")


def _where(file: str, line: int) -> str:
    return format_place(file, line) if file else "an unknown place"
