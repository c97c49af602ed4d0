"""Why a job hangs or failed, by all of its files: its record or dumps, its logs, stacks and reports of RAS.

Each kind has its judge; this module calls them, and weighs what they say. A record knows who stands where, logs know
who died.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from ddpquiz.diagnosis.diagnosis import Diagnosis, RankPosition
from ddpquiz.diagnosis.event_diagnosis import diagnose, without_end
from ddpquiz.diagnosis.log_diagnosis import diagnose_log
from ddpquiz.diagnosis.log_evidence import LogEvidence, as_event
from ddpquiz.diagnosis.rank_status import NO_RECORD, RankStatus
from ddpquiz.diagnosis.ras_diagnosis import add_ras
from ddpquiz.diagnosis.stack_diagnosis import add_stacks, diagnose_stacks
from ddpquiz.events.event import Exited, Raised
from ddpquiz.events.run_state import RunState
from ddpquiz.events.silent_faults import compares_weights, silent_faults
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.jobs.log_file import JobLog, LoggedProgress
from ddpquiz.jobs.rank_files import Liveness, find_unended

_SILENT = (
    "No rank failed and all calls fit together, so no error shows this. --summary shows what else could be improved."
)
_COMPARED = "Of all values, only weights of replicas were compared, at some steps: losses and data may be wrong."
_NOT_COMPARED = "Only the calls were compared, not the values in them: weights, losses and data may be wrong."


def diagnose_job(record: JobRecord, state: RunState) -> Diagnosis:
    """What is wrong with a job, by its record, logs and stacks; `state` is what its events have led to."""
    found = None if record.is_unrecorded and record.log is None else _with_cut(_of_record(record, state), record, state)
    if record.ras is not None:
        found = add_ras(found, record.ras)
    if record.stacks is not None:
        found = diagnose_stacks(record.stacks) if found is None else add_stacks(found, record.stacks)
    return found or _of_record(record, state)


def _with_cut(found: Diagnosis, record: JobRecord, state: RunState) -> Diagnosis:
    """A verdict that says where ranks stand, with those whose files are cut off: it would not show them otherwise."""
    shown = {rank for each in found.positions for rank in each.ranks}
    cut = [rank for rank in record.cut if rank not in shown]
    more = [RankPosition((rank,), "its file is cut off there", *state.places.get(rank, ("", 0))) for rank in cut]
    return replace(found, positions=(*found.positions, *more)) if found.positions else found


def _of_record(record: JobRecord, state: RunState) -> Diagnosis:
    """What is wrong with a job, by what it recorded and logged."""
    if record.log is None:
        unended = find_unended(record, state)
        found = diagnose(state, absent=record.missing, now=record.until, seen=record.seen, unended=unended)
        return _calm(_with_stack(found, state, unended), state, unended)
    said = diagnose_log(record.log)
    return said if record.is_unrecorded else _of_both(record, record.log, state, said)


def _calm(found: Diagnosis, state: RunState, unended: Mapping[int, Liveness]) -> Diagnosis:
    """A verdict, or instead of none what is wrong although the calls fit, or that ranks have not recorded an end."""
    return without_end(_or_silent(found, state), state, unended) if found.fault == "none" else found


def _with_stack(verdict: Diagnosis, state: RunState, unended: Mapping[int, Liveness]) -> Diagnosis:
    """A verdict on a record, with how to see the stack of a late rank if the job may still run."""
    is_over = state.end or state.hung or state.exited or state.raised or "gone" in unended.values()
    if verdict.fault != "late" or not verdict.culprits or is_over:
        return verdict
    rank = verdict.culprits[0]
    look = f"`ddpquiz where {state.pids.get(rank) or 'PID'}` on its machine shows the stack of rank {rank}."
    return replace(verdict, advice=f"{verdict.advice} If the job still runs, {look}".strip())


def _or_silent(found: Diagnosis, state: RunState) -> Diagnosis:
    """A verdict, or instead of none what makes the result wrong although nothing failed."""
    if found.fault != "none":
        return found
    faults = silent_faults(state.timeline, state.script)
    if not faults:
        return replace(found, limits=(*found.limits, _COMPARED if compares_weights(state.timeline) else _NOT_COMPARED))
    return replace(found, fault="silent", sentence=" ".join(map(_capitalized, faults)), advice=_SILENT)


def _capitalized(sentence: str) -> str:
    """A sentence that begins with a line of the script stays as it is."""
    return sentence if re.match(r"\S+:\d+: ", sentence) else sentence[0].upper() + sentence[1:]


def _of_both(record: JobRecord, log: JobLog, state: RunState, said: Diagnosis) -> Diagnosis:
    """The verdict on a record beside its logs: the record says who stands where, the logs who died.

    `said` is what the logs say by themselves.
    """
    state = state.copy()
    for event in _failures_in(log, state):
        if event.rank not in state.raised and event.rank not in state.exited and event.rank < record.ranks:
            state.add(event)
    said_last = _last_words(log)
    unknown = [rank for rank in record.missing if rank not in state.raised and rank not in state.exited]
    absent = {rank: said_last.get(rank, NO_RECORD) for rank in unknown}
    unended = find_unended(record, state)
    found = diagnose(state, absent=absent, now=record.until, seen=record.seen, unended=unended)
    is_silent = said.fault in ("quiet", "stopped", "unknown")
    if found.fault in ("none", "absent") and not is_silent:
        open_ = found.limits if not said.culprits else [limit for limit in found.limits if limit != NO_RECORD.limit]
        limits = (*said.limits, *(limit for limit in open_ if limit not in said.limits))
        return replace(said, positions=said.positions or found.positions, limits=limits)
    if found.fault == "none" and said.fault == "quiet":
        return _calm(found, state, unended)
    if found.fault == "none":
        return replace(said, limits=(*said.limits, f"In the record, by itself, nothing is wrong: {found.sentence}"))
    limits = found.limits
    if said.fault == "stopped":
        limits += (said.sentence,)
    if not is_silent and not {*said.culprits} & {*found.culprits}:
        limits += (f"The logs by themselves say: {said.sentence}",)
    return replace(found, limits=limits, evidence=said.evidence)


def _failures_in(log: JobLog, state: RunState) -> list[Raised | Exited]:
    """How ranks failed, as events of a run; a rank without a word did so after the last thing that it recorded."""
    evidence, now = LogEvidence(log), state.time
    told = [error for error in evidence.errors if not error.crash]
    raised = [
        as_event(error, now + number / 1e3, error.rank) for number, error in enumerate(told) if error.rank is not None
    ]
    exits = [
        Exited(state.last_event_at.get(rank, now + 1.0), rank, evidence.exits[rank].status)
        for rank in evidence.silent_ends()
        if not any(wait.rank == rank for wait in evidence.waits)
    ]
    return [*raised, *exits]


def _last_words(log: JobLog) -> dict[int, RankStatus]:
    """The status of ranks of which the logs say how far they had come while others waited."""
    words = {}
    for fact in log.facts:
        if isinstance(fact, LoggedProgress) and fact.rank is not None:
            done = f"had last enqueued number {fact.enqueued}" if fact.enqueued > 0 else "had enqueued no collective"
            group = f" of group {fact.group}" if fact.group else ""
            said = f"has not reached this call; it {done}{group}, says its log"
            words[fact.rank] = RankStatus("late", said, seen=True)
    return words
