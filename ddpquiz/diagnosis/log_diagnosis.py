"""Why a job failed or hangs, by its plain logs: the first error and its rank, or for whom ranks waited.

A log holds less than a record: a rank that wrote nothing may wait, work or be dead. The evidence is looked at in this
order. Calls that torch itself found to differ are certain. An error that no other rank caused is the cause, unless
ranks had timed out before. Else ranks waited or lost a connection (`log_waits.py`). A log without an error never means
that there is no fault.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ddpquiz.diagnosis import log_waits
from ddpquiz.diagnosis.diagnosis import ADVICE, SMALLER, Diagnosis, RankPosition
from ddpquiz.diagnosis.known_errors import advise_raised, explain_text
from ddpquiz.diagnosis.log_evidence import (
    OTHER_LOGS,
    RECORD_MORE,
    LogEvidence,
    as_event,
    ended_words,
    frame_of,
    kind_of,
    ranks_capitalized,
    signal_name,
    was_killed,
)
from ddpquiz.diagnosis.root_cause import (
    explain_failure,
    explain_gathered,
    gathered_failures,
    has_timed_out,
    was_stopped,
)
from ddpquiz.events.event import Began, Started
from ddpquiz.events.formatting import format_place, format_ranks, in_one_line
from ddpquiz.events.run_state import RunState
from ddpquiz.events.source_text import code_at
from ddpquiz.jobs.log_file import JobLog, LoggedError, LoggedLaggards, LoggedMismatch
from ddpquiz.plural import plural

_WHERE = "`ddpquiz where` on its machines shows where the ranks stand."
_WHOSE = (
    "The lines do not say which rank wrote them; torch names it since 2.3, as do srun --label and torchrun --tee 3."
)
_WHO_STOPPED = "The logs do not say who sent it: a person, a scheduler, or the launcher because another rank had ended."
_CUDA_LATER = "CUDA reports an error later than it happens, so the line may be a later one: set CUDA_LAUNCH_BLOCKING=1."


def diagnose_log(log: JobLog) -> Diagnosis:
    """What the logs of a job say about why it failed, or that they do not show it."""
    evidence = LogEvidence(log)
    found = _verdict(evidence)
    if found.fault == "dead":
        return found
    return replace(found, limits=(*found.limits, *evidence.survived_words()))


def _verdict(evidence: LogEvidence) -> Diagnosis:
    """The verdict by the strongest evidence that there is."""
    if mismatches := evidence.of(LoggedMismatch):
        return log_waits.diagnose_logged_mismatch(evidence, mismatches)
    timeouts = [wait for wait in evidence.waits if wait.seconds is not None]
    laggards = evidence.of(LoggedLaggards)
    first_wait = evidence.earliest([*timeouts, *laggards]) if timeouts or laggards else None
    causes, silent_ends = evidence.causes(), evidence.silent_ends()
    if causes and not _ended_first(evidence, silent_ends):
        first = evidence.earliest(causes)
        if first_wait is None or not evidence.is_before(first_wait, first):
            found = _of_error(evidence, first, causes, silent_ends)
            return _of_last_words(found, first) if evidence.is_open(first) else found
    signalled = evidence.notice("dump_signal")
    if signalled and first_wait is None and not _ended_first(evidence, silent_ends):
        return log_waits.diagnose_dump_signal(evidence, signalled)
    if silent_ends and first_wait is None:
        return _of_caught_errors(evidence, silent_ends) or _of_exit(evidence, silent_ends)
    if laggards:
        return log_waits.diagnose_laggards(evidence, laggards, timeouts)
    return log_waits.diagnose_timeouts(evidence, timeouts) if timeouts else _of_the_rest(evidence)


def _of_the_rest(evidence: LogEvidence) -> Diagnosis:
    """The verdict on logs in which no rank failed by itself and no watchdog spoke."""
    if sizes := evidence.size_abort():
        return log_waits.diagnose_sizes(evidence, sizes)
    if not evidence.waits and _was_stopped(evidence):
        return _of_no_error(evidence)
    if late := [error for error in evidence.errors if has_timed_out(as_event(error, 0.0, error.rank or 0))]:
        return log_waits.diagnose_late_errors(evidence, late)
    return log_waits.diagnose_lost_connections(evidence)


def _was_stopped(evidence: LogEvidence) -> bool:
    """Whether the errors followed from a signal to all ranks, and not from one that is gone."""
    stopped = [error for error in evidence.errors if evidence.is_of_stop(error)]
    return len(stopped) == len(evidence.errors) or (bool(stopped) and not evidence.silent(()))


# Errors that no other rank caused.


def _ended_first(evidence: LogEvidence, ranks: Sequence[int]) -> bool:
    """Whether a signal ended one of these ranks before any other rank ended, as the launcher says.

    A rank aborts itself for many reasons, such as the end of another one.
    """
    ended = [evidence.exits[rank] for rank in ranks if evidence.exits[rank].first]
    return any(map(was_killed, ended))


def _of_error(
    evidence: LogEvidence, first: LoggedError, causes: Sequence[LoggedError], silent_ends: Sequence[int]
) -> Diagnosis:
    kind, kinds = kind_of(first), [kind_of(each) for each in causes]
    alike = [each for each, of_each in zip(causes, kinds, strict=True) if of_each == kind]
    if first.rank is None or first.crash:
        found = _explain_alone(first, alike)
    else:
        found = explain_failure(_run_of(evidence, causes)) or Diagnosis("dead", (first.rank,), first.at.text)
    cause = found.culprits
    ranks = frozenset(cause)
    others = [each for each, of_each in zip(causes, kinds, strict=True) if each.rank not in ranks and of_each != kind]
    limits = []
    if others:
        other = evidence.earliest(others)
        when = "later" if evidence.is_before(first, other) else "too; the logs do not show which of them was first"
        who = "Another rank" if other.rank is None else ranks_capitalized([other.rank])
        limits.append(f"{who} raised {other.error} {when}.")
    if ended := [rank for rank in silent_ends if rank not in ranks]:
        how = ended_words(evidence.exits[ended[0]].status)
        limits.append(f"{ranks_capitalized(ended)} {how} too; the logs do not show which was first.")
    if "CUDA error" in f"{first.error} {first.message}":
        limits.append(_CUDA_LATER)
        noticed = evidence.notice("device_assert")
        found = replace(found, evidence=(str(noticed.at),) if noticed else ())
    if cause and found.fault == "dead":
        doing = "crashed" if first.crash else f"raised {first.error}"
        found = replace(found, positions=(RankPosition(cause, doing, *frame_of(first)),))
    return evidence.complete(found, cause, [*alike, *others], limits)


def _of_last_words(found: Diagnosis, error: LoggedError) -> Diagnosis:
    """The verdict on an exception that ends a log which does not say whether it also ended its rank."""
    frame, message = frame_of(error), in_one_line(error.message)
    whose = f"the log of {format_ranks([error.rank])}" if error.rank is not None else "this log"
    where = f" at {format_place(*frame)}" if frame[0] else ""
    sentence = f"The last thing in {whose} is an exception: {error.error}{where}: {message}".rstrip(": ")
    return replace(
        found, fault="unknown", sentence=sentence, advice=f"{_SEE_END} If it did: {found.advice}",
        limits=(_MAY_BE_HANDLED, *found.limits),
    )  # fmt: skip


_MAY_BE_HANDLED = (
    "The log does not say whether the rank ended by it: a script that handles an exception prints it in the same way."
)
_SEE_END = (
    "Find out whether that rank still runs (`ddpquiz where` on its machine), or how it ended: its launcher says that, "
    "in a log of its own."
)


def _explain_alone(first: LoggedError, alike: Sequence[LoggedError]) -> Diagnosis:
    """The verdict on a crash, or on an error of which the rank is not known."""
    frame = frame_of(first)
    where = format_place(*frame) if frame[0] else "an unknown place"
    ranks = tuple(sorted({each.rank for each in alike if each.rank is not None}))
    who = (
        ranks_capitalized(ranks) if ranks else "A rank" if len(alike) == 1 else plural(len(alike), "rank").capitalize()
    )
    limits = () if ranks else (_WHOSE,)
    message = in_one_line(first.message)
    if first.crash:
        advice = "Native code crashed: an extension that this line calls, or a library built for another version."
        return Diagnosis("dead", ranks, f"{who} crashed at {where}: {message}.", advice=advice, limits=limits)
    if failed := gathered_failures(first.message):
        sentence, advice = explain_gathered(failed, where)
        return Diagnosis("dead", tuple(sorted(failed)), sentence, advice=advice)
    text = f"{first.error}: {first.message}\n{code_at(first.traceback, *frame)}"
    raised = f"{who} raised {first.error} at {where}: {message}".rstrip(": ")
    sentence, advice = explain_text(text, None, where, RunState()) or (raised, advise_raised(text))
    return Diagnosis("dead", ranks, sentence, advice=advice, limits=limits)


def _run_of(evidence: LogEvidence, causes: Sequence[LoggedError]) -> RunState:
    """The ranks with their errors as a run, which is what knows the meaning of exceptions."""
    state = RunState()
    state.add(Began("", (), max(1, evidence.log.ranks), "cpu", "unknown", ""))
    for rank in range(evidence.log.ranks):
        state.add(Started(0.0, rank, 0))
    first = evidence.earliest(causes)
    ordered = [first, *(each for each in causes if each is not first)]
    for number, error in enumerate(ordered):
        if error.rank is not None and not error.crash and error.rank not in state.raised:
            state.add(as_event(error, 1.0 + number / 1e3, error.rank))
    return state


# Ranks that ended without a word of their own.


def _of_caught_errors(evidence: LogEvidence, ends: Sequence[int]) -> Diagnosis | None:
    """The verdict where a script caught and printed what broke: a rank that aborts at its end is not the cause."""
    lost, aborted = evidence.notice("caught_loss"), evidence.notice("abort", "heartbeat")
    if not lost or aborted or any(evidence.exits[rank].status not in (0, -signal.SIGABRT) for rank in ends):
        return None
    printed = evidence.notice("printed_error")
    earlier = printed if printed and evidence.is_before(printed, lost) else None
    cause = f" The first line that speaks of an error is {earlier.said!r}." if earlier else ""
    ended = f" {ranks_capitalized(ends)} {ended_words(evidence.exits[ends[0]].status)} after that." if ends else ""
    what = "Ranks lost their connection, and the script caught the exceptions and printed them."
    found = Diagnosis(
        "unknown", (), f"{what}{cause}{ended}",
        advice="Let exceptions of a rank end it (`raise`), or print the whole traceback with the rank.",
        limits=(_WHOSE,), evidence=tuple(str(each.at) for each in (earlier, lost) if each),
    )  # fmt: skip
    return evidence.complete(found, (), [evidence.exits[rank] for rank in ends])


def _of_exit(evidence: LogEvidence, ranks: Sequence[int]) -> Diagnosis:
    first = next((rank for rank in ranks if evidence.exits[rank].first), ranks[0])
    status = evidence.exits[first].status
    alike = tuple(rank for rank in ranks if evidence.exits[rank].status == status)
    who, were = ranks_capitalized(alike), "was" if len(alike) == 1 else "were"
    memory, aborted = evidence.notice("memory_killer"), evidence.notice("abort", "heartbeat")
    if status == -signal.SIGKILL and memory:
        advice = f"{SMALLER}, fewer ranks or loader workers on a machine, or ask for more memory."
        sentence = f"{who} {were} killed because memory ran out."
        found = Diagnosis("dead", alike, sentence, advice=advice, evidence=(str(memory.at),))
    elif status == -signal.SIGKILL:
        found = Diagnosis(
            "dead", alike, f"{who} {were} killed by SIGKILL.", limits=("The logs do not say who sent it.",),
            advice="That is often the kernel, when memory has run out: look in `dmesg` on its machine.",
        )  # fmt: skip
    elif status < 0 and aborted:
        limits = ("The logs do not say which rank wrote that.",) if aborted.rank is None else ()
        sentence = f"{who} {were} killed by {signal_name(-status)}. Before that: {aborted.said}"
        found = Diagnosis("dead", alike, sentence, advice=ADVICE["raised"], limits=limits, evidence=(str(aborted.at),))
    elif status < 0:
        advice = "Native code crashed. PYTHONFAULTHANDLER=1 makes Python write the line at which it does."
        found = Diagnosis("dead", alike, f"{who} {were} killed by {signal_name(-status)}.", advice=advice)
    else:
        if caught := [error for error in evidence.went_on if error.rank in alike and not error.beside]:
            return _of_exit_after_error(evidence, alike, status, caught)
        whose = "its" if len(alike) == 1 else "their"
        found = Diagnosis(
            "dead", alike, f"{who} exited with status {status}, and no error of {whose} own is in these logs.",
            advice="Put its own log beside these: torchrun --log-dir writes one for each rank. Without a traceback it "
            "exited by itself, as sys.exit() and os._exit() do.", limits=_printed(evidence),
        )  # fmt: skip
    return evidence.complete(found, alike, [evidence.exits[rank] for rank in alike])


def _of_exit_after_error(
    evidence: LogEvidence, ranks: Sequence[int], status: int, caught: Sequence[LoggedError]
) -> Diagnosis:
    """The verdict on ranks that exited some time after their script had caught an exception and printed it."""
    last = caught[-1]
    whose, frame = "its" if len(ranks) == 1 else "their", frame_of(last)
    where = f" at {format_place(*frame)}" if frame[0] else ""
    text = f"{last.error}: {in_one_line(last.message)}".rstrip(": ")
    sentence = (
        f"{ranks_capitalized(ranks)} exited with status {status}. "
        f"Before that, {whose} script caught an exception{where}: {text}"
    )
    limits = (f"It printed more after that, so {whose} exit may have another reason.",)
    found = Diagnosis("dead", tuple(ranks), sentence, advice=advise_raised(text), limits=limits)
    return evidence.complete(found, ranks, [last, *(evidence.exits[rank] for rank in ranks)])


def _printed(evidence: LogEvidence) -> tuple[str, ...]:
    """What a script printed of an error, which may be the cause."""
    printed = evidence.notice("printed_error")
    return (f"This line may tell the cause: {printed.at}",) if printed else ()


# Logs without an error.


def _of_no_error(evidence: LogEvidence) -> Diagnosis:
    outside = evidence.stop
    terminated = [error for error in evidence.errors if was_stopped(error.message)]
    if outside or evidence.interrupted or terminated:
        how, limits = "from the keyboard" if evidence.interrupted else "by SIGTERM", []
        lines = [str(each.at) for each in (*evidence.interrupted, *terminated)[:1]]
        if outside:
            signalled = re.search(r"Received (?:(\d+)|Signals\.(\w+)) death signal", outside.said)
            received = (signalled[2] or signal_name(int(signalled[1]))) if signalled else "a signal"
            how = "by Slurm" if outside.kind == "time_limit" else f"from outside: the launcher received {received}"
            lines = [str(outside.at)]
        elif terminated:
            limits.append(_WHO_STOPPED)
            if silent := evidence.silent(()):
                limits.append(
                    f"{ranks_capitalized(silent)} wrote no error: a launcher ends all ranks when one has ended."
                )
        limits += _of_unnumbered(evidence)
        that_ended = " that ended it" if evidence.went_on else ""
        return Diagnosis(
            "stopped", (), f"The job was stopped {how}. Before that, no rank wrote an error{that_ended}.",
            tuple(evidence.places([*evidence.interrupted, *evidence.errors])),
            advice=f"If it hangs again: {_WHERE} {RECORD_MORE}",
            limits=("The logs do not say whether it hung or worked.", *limits), evidence=tuple(lines),
        )  # fmt: skip
    if warning := evidence.notice("memory_killer", "device_assert", "heartbeat", "abort"):
        return Diagnosis(
            "unknown", warning.ranks, f"No rank wrote how it ended, but a line warns: {warning.said}",
            advice=OTHER_LOGS, evidence=(str(warning.at),), limits=("The logs do not say what followed from it.",),
        )  # fmt: skip
    if caught := _of_caught_errors(evidence, ()):
        return caught
    if evidence.of_launcher:
        error = evidence.of_launcher[0]
        message = in_one_line(error.message)
        return Diagnosis(
            "dead", (), f"The launcher failed with {error.error}: {message}".rstrip(": "), evidence=(str(error.at),),
            advice="No rank wrote an error. Look at how the job is started: addresses, ports, number of nodes.",
        )  # fmt: skip
    return _of_quiet_logs(evidence)


def _of_unnumbered(evidence: LogEvidence) -> list[str]:
    """Sentences on errors of which the logs do not say which rank raised them."""
    kinds = Counter(kind_of(error) for error in evidence.errors if error.rank is None)
    return [
        f"{f'{count} ranks whose numbers' if count > 1 else 'A rank whose number'} the logs do not say raised {error}"
        f"{f' at {format_place(file, line)}' if line else ''}."
        for (error, file, line), count in kinds.items()
    ]


def _of_quiet_logs(evidence: LogEvidence) -> Diagnosis:
    log = evidence.log
    limits = []
    warning = evidence.notice("nccl_warning")
    if warning:
        limits.append(f"NCCL warns of something that may be harmless: {warning.said}")
    limits.append("A job that hangs writes no error either, until a timeout comes.")
    ended = " that ended a rank" if evidence.went_on else ""
    read = f"{plural(log.lines, 'line')} of {plural(len(log.files), 'log')}"
    return Diagnosis(
        "quiet", (), f"No error{ended} is in {read}. That does not show that there was no fault.",
        advice=f"If the job hangs now, {_WHERE} {RECORD_MORE}", limits=tuple(limits),
        evidence=tuple(str(fact.at) for fact in (*evidence.went_on[:1], warning) if fact),
    )  # fmt: skip
