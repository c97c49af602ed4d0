"""The root cause of a failure: the rank that failed first, not those that only noticed, why, and what to do.

It knows what signals and exit statuses of a distributed script mean; `known_errors.py` knows its exceptions.
"""

import math
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from ddpquiz.diagnosis.diagnosis import ADVICE, THREAD_ENDED, Diagnosis, call_at
from ddpquiz.diagnosis.known_errors import (
    DIFFERENT_MODELS,
    OUT_OF_MEMORY,
    advise_raised,
    explain_different_models,
    explain_text,
)
from ddpquiz.errors import FAULT
from ddpquiz.events.event import JOIN, UNUSED, Exited, Hung, Raised, RankStack
from ddpquiz.events.formatting import format_place, format_ranks, in_one_line
from ddpquiz.events.run_state import RunState
from ddpquiz.events.source_text import code_at, frames_in, own_frame
from ddpquiz.plural import plural

# What a rank raises because another one has failed or does not arrive: never the cause.
_CONSEQUENCE = re.compile(
    r"Connection (closed|reset|was likely closed)|Broken pipe|Timed out waiting|timeout caused pair closure|"
    r"wait timeout after|Socket Timeout|Connection refused|failed to pass monitoredBarrier|recvValue failed|"
    r"sendBytes failed|client socket has timed out|Timed out after \d+ seconds waiting|timed out connecting|"
    r"received errors while waiting for send/recv from rank|remote process exited or there was a network error|"
    r"NCCL communicator was aborted|ncclRemoteError|Watchdog caught collective operation timeout|recvBytes failed|"
    r"Failed to recv, got 0 bytes"
)
# What the main process of a DataLoader raises when SIGTERM has reached its workers too, because the job is ended.
_STOPPED = re.compile(r"DataLoader worker \(pid[^)]*\) is killed by signal: Terminated")
_TIMED_OUT = re.compile(
    r"(?:Timed out waiting|wait timeout after|failed to pass monitoredBarrier in) (?P<ms>\d{1,12}) ?ms|"
    r"Timed out after (?P<s>\d{1,9}) seconds waiting"
)
# The exception that says how a worker ended; torch raises another one from it, that it "exited unexpectedly".
_WORKER_ENDED = re.compile(
    r"RuntimeError: DataLoader worker \(pid[^)]*\) (?:is killed by signal: |exited unexpectedly with exit code).*"
)
_LONGEST = 300  # characters of a message that a sentence quotes
_MOST_MESSAGES = 4  # of different ranks that a sentence quotes
# Of a step of a distributed checkpoint, which torch.distributed.checkpoint raises on all ranks if it fails on one.
_GATHERED = re.compile(r"CheckpointException ranks:dict_keys\(\[([\d, ]+)\]\)")
_OF_RANK = re.compile(r"^Traceback \(most recent call last\): \(RANK (\d{1,6})\)$", re.MULTILINE)
_WITHOUT_GRADIENT = re.compile(r"did not receive grad for rank \d+: (?P<indices>\d(?:[\d ]*\d)?)")


def raised_words(raised: Raised) -> str:
    """What a rank raised, for the sentence "rank 1 raised ..."; of gathered failures the first one."""
    gathered = next(filter(None, gathered_failures(raised.message).values()), "")
    return gathered or f"{raised.error}: {first_line(raised)}".rstrip(": ")


def first_line(raised: Raised) -> str:
    """A message in one line; of a long one, which its traceback shows whole, the beginning."""
    line = in_one_line(raised.message)
    if len(line) <= _LONGEST:
        return line
    end = line.rfind(". ", 0, _LONGEST)
    return f"{line[: end + 1]} ..." if end > 0 else f"{line[:_LONGEST]}..."


def is_consequence(message: str) -> bool:
    """Whether a rank raised an exception with this message only because another one failed or did not arrive."""
    return bool(_CONSEQUENCE.search(message)) or was_stopped(message)


def was_stopped(message: str) -> bool:
    """Whether a rank raised an exception with this message because its processes got the signal to end, SIGTERM."""
    return bool(_STOPPED.search(message))


def is_effect(raised: Raised) -> bool:
    """Whether a rank raised this only because another one failed or did not arrive, or because it was interrupted."""
    return is_consequence(raised.message) or is_interrupt(raised)


def gathered_failures(message: str) -> dict[int, str]:
    """By rank the errors that an exception gathered from other ranks; empty if this is no such exception.

    The ranks count within the group that saved or loaded the checkpoint. Of a long message, errors may be cut off.
    """
    head = _GATHERED.search(message)
    if head is None:
        return {}
    failed = dict.fromkeys(map(int, re.findall(r"\d+", head[1])), "")
    _, *parts = _OF_RANK.split(message)
    for rank, text in zip(parts[::2], parts[1::2], strict=True):
        error = re.search(r"^\S.*", text, re.MULTILINE | re.DOTALL)  # below the frames, which are indented
        failed[int(rank)] = in_one_line(error[0]) if error else ""
    return failed


def _failed_of(raised: Raised, state: RunState) -> dict[int, str]:
    """The failures that an exception gathered, by the rank in the job.

    A rank that saves or loads alone (`no_dist`) counts as rank 0. Then it has sent nothing in that line.
    """
    failed = gathered_failures(raised.message)
    raisers = {rank for rank, each in state.raised.items() if gathered_failures(each.message)}
    last = state.last_call.get(raised.rank)
    is_alone = (
        own_frame(_without_gathered(raised), state.script) != (last.operation.file, last.operation.line)
        if last
        else not {*failed} <= raisers
    )
    if is_alone and {*failed} == {0}:
        return {raised.rank: failed[0]}
    members = last.operation.members if last else ()
    return {members[rank] if rank < len(members) else rank: text for rank, text in failed.items()}


def _without_gathered(raised: Raised) -> str:
    """The traceback of a rank, without those of other ranks that its message holds."""
    return raised.traceback.partition("CheckpointException ranks:")[0]


def was_told(raised: Raised, state: RunState) -> bool:
    """Whether a rank raised only because it was told that a step of a checkpoint had failed on others."""
    return bool(gathered_failures(raised.message)) and raised.rank not in _failed_of(raised, state)


def explain_gathered(failed: Mapping[int, str], where: str) -> tuple[str, str]:
    """The errors of ranks on which a step of a checkpoint failed, in a sentence, and what to do about the first one."""
    alike = _alike(failed)
    texts = [
        f"{format_ranks(each).capitalize()} failed at {where}: {failed[each[0]] or 'its error is not known.'}"
        for each in alike[:_MOST_MESSAGES]
    ]
    texts += [f"{len(alike) - _MOST_MESSAGES} more failed there."] * (len(alike) > _MOST_MESSAGES)
    return " ".join(text if text.endswith(".") else f"{text}." for text in texts), advise_raised(failed[min(failed)])


def is_interrupt(raised: Raised) -> bool:
    """Whether a rank raised this because a signal told it to end: ctrl+c, or SIGTERM, which its workers got too."""
    if "exited unexpectedly" in raised.message:  # of a worker: what that was raised from tells how
        return was_stopped(raised.traceback)
    return raised.error == "KeyboardInterrupt" or was_stopped(raised.message)


def has_timed_out(raised: Raised) -> bool:
    """Whether a rank raised this because another one did not arrive in time."""
    return is_consequence(raised.message) and bool(
        re.search("imed out|wait timeout|failed to pass monitoredBarrier", raised.message)
    )


def timeout_of(state: RunState, ranks: Collection[int]) -> float:
    """The seconds after which some of the ranks gave up waiting for others; 0 if none did."""
    return max((_waited(state.raised[rank].message) for rank in ranks if rank in state.raised), default=0.0)


def _waited(message: str) -> float:
    """The timeout that a message names, in seconds; 0 if it names none."""
    found = _TIMED_OUT.finditer(message)
    return max((float(each["s"] or 0) + float(each["ms"] or 0) / 1000 for each in found), default=0.0)


def failed_in_communication(state: RunState) -> bool:
    """Whether every failed rank failed while it communicated."""
    texts = [raised.message for raised in state.raised.values()]
    texts += [_stderr(rank, state) for rank, exited in state.exited.items() if exited.status == -signal.SIGABRT]
    return bool(texts) and all(_CONSEQUENCE.search(text) or "gloo" in text.lower() for text in texts)


def has_failed(state: RunState) -> bool:
    """Whether a run has failed: its ranks hang, or one of them failed."""
    return state.hung is not None or bool(failures_in_order(state))


def hang_behind_timeouts(now: float, stacks: tuple[RankStack, ...], state: RunState) -> Hung | None:
    """The hang that made every failed rank fail: it waited as long as the timeout of its group allows."""
    texts = [raised.message for raised in state.raised.values()]
    waited = [_waited(text) for text in texts]
    if not any(waited) or not all(consequence for consequence, _, _ in failures_in_order(state)):
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


def raised_before_hang(state: RunState) -> dict[int, Raised]:
    """What ranks raised; without what they raise when a hang has been noticed and they are ended."""
    end = state.hung.time if state.hung else math.inf
    return {rank: raised for rank, raised in state.raised.items() if raised.time <= end}


def failures_in_order(state: RunState) -> list[tuple[bool, float, int]]:
    """Of each rank that failed: whether only another rank's failure made it fail, when, and the rank."""
    failures = [
        (is_effect(raised) or was_told(raised, state), raised.time, raised.rank)
        for raised in raised_before_hang(state).values()
    ]
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
    failures = failures_in_order(state)
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


def _explain_gathered(first: Raised, state: RunState) -> Diagnosis:
    """The failure of a step of a checkpoint: the ranks on which it failed, and those that only learned of it."""
    failed = _failed_of(first, state)
    sentence, advice = explain_gathered(failed, _where(*own_frame(_without_gathered(first), state.script)))
    if told := [raised.rank for raised in state.raised.values() if was_told(raised, state)]:
        sentence += f" {format_ranks(sorted(told)).capitalize()} raised CheckpointException only because of that."
    return _dead(failed, sentence, advice)


def _explain_exception(first: Raised, state: RunState) -> Diagnosis:
    if gathered_failures(first.message):
        return _explain_gathered(first, state)
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
    said = {each: first_line(state.raised[each]) for each in ranks}
    alike = _alike(said)
    place = f" at {format_place(*frame)}" if frame[0] else ""
    raised_there = f"{format_ranks(sorted(ranks)).capitalize()} raised {raised.error}{place}"
    if len(alike) == 1:
        return _dead(ranks, f"{raised_there}: {said[rank]}".rstrip(": "), advise_raised(messages[rank]))
    texts = [f"{format_ranks(each)}: {said[each[0]]}" for each in alike]
    texts[_MOST_MESSAGES:] = [f"{len(alike) - _MOST_MESSAGES} more"] * (len(alike) > _MOST_MESSAGES)
    return _dead(ranks, f"{raised_there} with different messages. {'; '.join(texts)}", advise_raised(messages[rank]))


def _full_text(raised: Raised, frame: tuple[str, int]) -> str:
    """An exception as _MEANINGS reads it: its type, its message, and the line of code that raised it.

    Of a DataLoader worker that exited unexpectedly, it is the exception that says how.
    """
    if "exited unexpectedly" in raised.message and (ended := _WORKER_ENDED.search(raised.traceback)):
        return ended[0]
    return f"{raised.error}: {raised.message}\n{code_at(raised.traceback, *frame)}"


_NAMED_RANK = re.compile(r"\brank (\d+)\b", re.IGNORECASE)


def _without_number(text: str, rank: str) -> str:
    return _NAMED_RANK.sub(lambda found: "rank" if found[1] == rank else found[0], text)


def _alike(said: Mapping[int, str]) -> list[list[int]]:
    """Ranks whose texts are equal, whatever number the rank has there and wherever an object lay."""
    texts = {rank: re.sub(r"\b0x[0-9a-f]+", "", said[rank]) for rank in sorted(said)}
    shared, groups = Counter(texts.values()), defaultdict[str, list[int]](list)
    for rank, text in texts.items():  # a text of several ranks names no number of theirs
        groups[text if shared[text] > 1 else _without_number(text, str(rank))].append(rank)
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
    caught = _error_in(handled, state.script) or printed_error(rank, state)
    return _after_error(sentence, caught) or (sentence, "The script calls sys.exit() there.")


def _explain_exit(rank: int, state: RunState) -> tuple[str, str]:
    exited, last = state.exited[rank], state.last_call.get(rank)
    after = f", after {call_at(last.operation)}" if last else ""
    if exited.status < 0:
        return _explain_signal(exited, after, state)
    if exited.status == FAULT and "ddpquiz" in _stderr(rank, state):
        return f"ddpquiz itself failed in rank {rank}; its traceback is above.", "Please report it."
    sentence = f"Rank {rank} exited with status {exited.status}{after}."
    by_itself = "It exited without an exception, for example through os._exit()."
    return _after_error(sentence, printed_error(rank, state)) or (sentence, by_itself)


# An error that a script catches and prints before it exits.

_TOLD = r"Traceback \(most recent call last\):\n(?P<frames>(?:[ \t]+.*\n)+)(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$"
_TRACEBACK = re.compile(_TOLD, re.MULTILINE)
_IN_THREAD = re.compile(rf"^Exception in thread .*\n{_TOLD}", re.MULTILINE)
_SPEAKS_OF_ERROR = re.compile(
    r"\b(error|exception|failed|fatal|cannot|could not)\b|\w(Error|Exception)\b", re.IGNORECASE
)


def _error_in(text: str, script: str) -> tuple[str, str] | None:
    """The last exception of which a text has the traceback, and its place."""
    found = [*_TRACEBACK.finditer(text)]
    return (found[-1]["error"], _where(*own_frame(found[-1]["frames"], script))) if found else None


def ended_threads(state: RunState) -> list[tuple[int | None, str]]:
    """The exceptions that ended threads of ranks, as Python printed them: the rank, and a sentence."""
    found: list[tuple[int | None, str]] = []
    for rank, lines in sorted(state.log.items()):
        for each in _IN_THREAD.finditer("\n".join(line.text for line in lines)):
            error, _, message = each["error"].partition(": ")
            place = format_place(*own_frame(each["frames"], state.script))
            found.append((rank, thread_words(error, place, rank, message)))
    return found


def thread_words(error: str, place: str, rank: int | None, message: str) -> str:
    """A sentence on an exception that ended a thread."""
    whose = "" if rank is None else f" of rank {rank}"
    return f"{error}{f' at {place}' if place else ''} ended a thread{whose}: {in_one_line(message)}".rstrip(": ")


def with_ended_threads(verdict: Diagnosis, ended: Collection[tuple[int | None, str]]) -> Diagnosis:
    """A verdict on a late rank, with the exceptions that ended threads: the rank may wait for one of those."""
    theirs = [text for rank, text in ended if rank is None or rank in verdict.culprits]
    if verdict.fault != "late" or not theirs:
        return verdict
    sentence = f"{verdict.sentence.rstrip('.')}. {theirs[0].rstrip('.')}."
    return replace(verdict, sentence=sentence, advice=verdict.advice.replace(ADVICE["late"], THREAD_ENDED))


def printed_error(rank: int, state: RunState) -> tuple[str, str] | None:
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
            "Find out who sent it: a person, a batch system, the kernel (`dmesg`), or the script itself (os.kill).",
        )
    where = _where(last.operation.file, last.operation.line) if last else "an unknown place"
    if known := explain_text(_stderr(rank, state), rank, where, state):
        return known
    # Real-time signals have numbers only.
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if frames_in(exited.stack):
        place = _where(*own_frame(exited.stack, state.script, newest_first=True))
        return f"Rank {rank} crashed with {name} at {place}.", "Native code crashed; the stack is above."
    return f"Rank {rank} was killed by {name}{after}.", ""


def _stderr(rank: int, state: RunState) -> str:
    return "\n".join(line.text for line in state.lines if line.rank == rank and line.stream == "stderr")


def _where(file: str, line: int) -> str:
    return format_place(file, line) if file else "an unknown place"
