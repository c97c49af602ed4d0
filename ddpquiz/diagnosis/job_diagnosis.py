"""Why a job hangs or failed, by all of its files: its record or dumps, its logs, stacks and reports of RAS.

Each kind has its judge; this module calls them, and weighs what they say. A record knows who stands where, logs know
who died.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from ddpquiz.diagnosis.diagnosis import Diagnosis, FaultKind, RankPosition
from ddpquiz.diagnosis.event_diagnosis import diagnose, without_end
from ddpquiz.diagnosis.log_diagnosis import diagnose_log
from ddpquiz.diagnosis.log_evidence import LogEvidence, as_event
from ddpquiz.diagnosis.rank_status import NO_RECORD, UNREAD, RankStatus
from ddpquiz.diagnosis.ras_diagnosis import add_ras
from ddpquiz.diagnosis.root_cause import with_ended_threads
from ddpquiz.diagnosis.stack_diagnosis import add_stacks, diagnose_stacks
from ddpquiz.events.event import Began, Event, Exited, Raised, RankEvent, Recorded, Started
from ddpquiz.events.run_state import RunState
from ddpquiz.events.silent_faults import compares_weights, parts_apart, silent_faults
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.jobs.log_file import JobLog, LoggedProgress, since_restart
from ddpquiz.jobs.rank_files import find_unended
from ddpquiz.jobs.rank_process import Liveness

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
        found = diagnose(state, absent=_absent(record), now=record.until, seen=record.seen, unended=unended)
        found = _calm(_with_stack(found, state, unended), state, unended)
    else:
        log = since_restart(record.log, state.restart)
        said = diagnose_log(log)
        found = said if record.is_unrecorded else _of_both(record, log, state, said)
    found = _without_blame(found, record.unread) if record.unread else found
    return _after_restarts(found, record, state) if state.restart else found


def _after_restarts(found: Diagnosis, record: JobRecord, state: RunState) -> Diagnosis:
    """A verdict on a job whose ranks were restarted, with what failed before the last restart."""
    current: dict[int, int] = {}
    events: list[Event] = []
    for event in record.events:
        if isinstance(event, Started):
            current[event.rank] = event.restart
        if isinstance(event, Began) or (isinstance(event, RankEvent) and current.get(event.rank) == state.restart - 1):
            events.append(event)
    before = RunState.after(events)
    unended: dict[int, Liveness] = {
        event.rank: "gone" for event in events
        if isinstance(event, Recorded) and event.rank not in {*before.exited, *before.raised, *before.finished}
    }  # fmt: skip
    what = f"The ranks were restarted {'once' if state.restart == 1 else f'{state.restart} times'}."
    first = diagnose(before, unended=unended)
    first = without_end(first, before, unended) if first.fault == "none" else first
    if not before.pids or first.fault == "none":
        what += " What failed before is not in the record."
    else:
        when = "that" if state.restart == 1 else "the last time"
        what += f" What failed first, before {when}: {first.sentence.rstrip('.')}."
    if found.fault in ("none", "quiet"):
        is_over = state.exited.keys() >= {*state.all_ranks} or state.finished.keys() >= {*state.all_ranks}
        what += f" The job recovered, and {'finished' if is_over else 'went on'}."
    return replace(found, sentence=f"{found.sentence.rstrip('.')}. {what}")


def _absent(record: JobRecord) -> dict[int, RankStatus]:
    """The status of the ranks of which nothing was read."""
    return {rank: UNREAD if rank in record.unread else NO_RECORD for rank in record.missing}


def _without_blame(found: Diagnosis, unread: Collection[int]) -> Diagnosis:
    """A verdict that neither blames ranks because their files cannot be read, nor is calm although they cannot."""
    if found.fault == "none":
        return replace(found, fault="quiet", advice=_READ_IT)
    if found.fault != "absent":
        return found
    culprits = tuple(rank for rank in found.culprits if rank not in unread)
    if culprits:
        return replace(found, culprits=culprits, limits=(*found.limits, UNREAD.limit))
    limits = (UNREAD.limit, *(limit for limit in found.limits if limit != NO_RECORD.limit))
    return replace(found, fault="unknown", culprits=(), advice=_READ_IT, limits=limits)


_READ_IT = (
    "Look for another dump of that rank, or for its end in the job's log: an exit code, a signal, a traceback. If it "
    "still runs, `ddpquiz where` on its machine shows where it is."
)


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
        apart = map(_capitalized, parts_apart(state.timeline, state.script))
        compared = _COMPARED if compares_weights(state.timeline) else _NOT_COMPARED
        return replace(found, limits=(*found.limits, *apart, compared))
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
    absent = {rank: said_last.get(rank, status) for rank, status in _absent(record).items() if rank in unknown}
    unended = find_unended(record, state)
    found = diagnose(state, absent=absent, now=record.until, seen=record.seen, unended=unended)
    is_silent = said.fault in ("quiet", "stopped", "unknown")
    if found.fault in ("none", "absent") and not is_silent:
        open_ = found.limits if not said.culprits else [limit for limit in found.limits if limit != NO_RECORD.limit]
        limits = (*said.limits, *(limit for limit in open_ if limit not in said.limits))
        return replace(said, positions=said.positions or found.positions, limits=limits)
    if found.fault == "none":
        found = _calm(found, state, unended)
        if said.fault == "quiet":
            return found
        limits = (*said.limits, f"{_BY_ITSELF.get(found.fault, _DOES_NOT_SHOW)}: {found.sentence}")
        return replace(said, positions=said.positions or found.positions, limits=limits)
    evidence = LogEvidence(log)
    found = with_ended_threads(found, evidence.ended_threads())
    limits = tuple(dict.fromkeys((*found.limits, *evidence.survived_words())))
    if said.fault == "stopped" or any(map(evidence.is_open, evidence.errors)):
        limits += (said.sentence,)
    if not is_silent and not {*said.culprits} & {*found.culprits}:
        limits += (f"The logs by themselves say: {said.sentence}",)
    return replace(found, limits=limits, evidence=said.evidence)


_BY_ITSELF: dict[FaultKind, str] = {
    "none": "In the record, by itself, nothing is wrong",
    "silent": "The record by itself says",
}
_DOES_NOT_SHOW = "The record by itself does not show why"


def _failures_in(log: JobLog, state: RunState) -> list[Raised | Exited]:
    """How ranks failed, as events of a run; a rank without a word did so after the last thing that it recorded.

    An exception that may have been handled is no end.
    """
    evidence, now = LogEvidence(log), state.time
    told = [error for error in evidence.errors if not error.crash and not evidence.is_open(error)]
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
