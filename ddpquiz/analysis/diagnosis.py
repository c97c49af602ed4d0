"""What is wrong with the communication of a job: the first operation that does not fit, which ranks, and which lines.

It reads nothing but the state that events have led to, so it judges a live run, a saved one, the files of a job on a
cluster and Flight Recorder dumps alike.
"""

import math
from collections.abc import Collection, Mapping

from ddpquiz.analysis import root_cause
from ddpquiz.analysis.blocked_ranks import find_blocked, has_gone_on, is_long
from ddpquiz.analysis.call_text import call_at
from ddpquiz.analysis.changed_request import changed_request
from ddpquiz.analysis.circular_wait import circular_wait
from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.events import RankPosition
from ddpquiz.analysis.extra_call import extra_call
from ddpquiz.analysis.formatting import format_place, format_ranks
from ddpquiz.analysis.group_verdict import different_groups, late_in_forming
from ddpquiz.analysis.mismatch_verdict import of_mismatch, standpoint, wait
from ddpquiz.analysis.no_fault import no_fault
from ddpquiz.analysis.operation import ROOTED, Operation
from ddpquiz.analysis.rank_fates import NO_FILE, Fate, find_fates
from ddpquiz.analysis.ranks_at_fault import singled_out
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.verdict import MIXED, MORE_CALLS, NEXT, UNEVEN, Diagnosis, FaultKind, Standpoint


def diagnose(
    state: RunState,
    *,
    absent: Collection[int] = (),
    now: float | None = None,
    seen: Mapping[int, float] | None = None,
    positions: Collection[RankPosition] = (),
) -> Diagnosis:
    """Return what is wrong.

    `absent` are ranks of which nothing is known, `now` is the end of what is known, and `seen` that of single ranks if
    it is earlier; `positions` say where ranks stand by their stacks.
    """
    fates = find_fates(state, absent, positions or (state.hung.ranks if state.hung else ()))
    if verdict := different_groups(state, find_blocked(state)):
        return verdict
    unlike = state.timeline.unlike()
    stuck = [found for found in unlike if _is_stuck(found[1], state)]
    if stuck:
        return of_mismatch(*stuck[0], state.timeline.order)
    verdict = None if absent or now != math.inf else _of_hidden_roots(state)
    verdict = verdict or _of_waits(state, fates, state.time if now is None else now, seen or {})
    verdict = verdict or late_in_forming(state, fates)
    if unlike and (verdict is None or verdict.fault != "dead"):  # calls that do not match, and came to an end
        return of_mismatch(*unlike[0], state.timeline.order)
    if (
        verdict
        and {*verdict.culprits} <= {*absent}
        and (last := next((e for e in unlike if _is_last(e[1], state)), None))
    ):
        return of_mismatch(*last, state.timeline.order)  # that is certain, and that a rank left no record may follow
    if absent and (verdict is None or {*verdict.culprits} <= {*absent}):
        verdict = changed_request(find_blocked(state), tuple(sorted(absent)), state.timeline.order) or verdict
    if verdict is None and absent and now == math.inf:  # the others recorded that they got stuck
        verdict = _of_absence(tuple(sorted(absent)), state)
    return verdict or _of_death(fates, state) or no_fault(state, absent)


def diagnose_record(record: JobRecord, state: RunState) -> Diagnosis:
    """Return what is wrong with a recorded job; `state` is what its events have led to."""
    return diagnose(state, absent=record.missing, now=record.until, seen=record.seen)


def _is_stuck(collective: Collective, state: RunState) -> bool:
    """Return True unless every call of the collective has ended well."""
    calls = collective.calls.values()
    if collective.complete and all(call.ended is not None and not call.failed for call in calls):
        return any(rank in state.raised for rank in collective.members)
    return True


def _is_last(collective: Collective, state: RunState) -> bool:
    """Return True if no rank has gone on after an operation."""
    return all(state.brought[rank].number == call.number for rank, call in collective.calls.items())


def _of_waits(state: RunState, fates: dict[int, Fate], now: float, seen: Mapping[int, float]) -> Diagnosis | None:
    """Return whom the waiting ranks wait for in the end, through chains of ranks that wait themselves."""
    blocked = find_blocked(state)
    waits = {rank: each for rank, each in blocked.items() if each.awaited}
    if not waits:
        return None
    roots = {rank for each in waits.values() for rank in each.awaited if rank not in waits and rank >= 0}
    roots = roots - blocked.keys() or roots  # the members of a group are not always known, nor whom those wait for
    absent = {rank for rank in roots if fates[rank].absent}
    certain = {rank for rank in roots - absent if not absent or fates[rank].kind != "late" or has_gone_on(rank, state)}
    for kind, ranks in (("dead", certain), ("left", certain), ("late", certain), ("dead", absent), ("late", roots)):
        found = {
            rank: next(each for each in waits.values() if rank in each.awaited)
            for rank in ranks if fates[rank].kind == kind
        }  # fmt: skip
        culprits = tuple(
            rank for rank in sorted(found) if _is_sure(found[rank], state, fates[rank], min(now, seen.get(rank, now)))
        )
        if culprits:
            collective = found[culprits[0]]
            if kind == "left" and (extra := _extra_call(collective, culprits, state)):
                return _of_extra_call(collective, culprits, extra, state)
            return _of_root(culprits, collective, state, fates, absent.difference(culprits))
    return None if roots else circular_wait(waits, state.timeline.order)


def _is_sure(collective: Collective, state: RunState, fate: Fate, until: float) -> bool:
    """Return True unless a rank may come to an operation as usual, after the time until which it is known."""
    is_silent = fate.kind == "late" and not fate.seen
    is_moving = fate.absent and until not in (state.time, math.inf)  # dumped while it went on
    return not (is_silent or is_moving) or is_long(collective, state, until)


def _hides_root(collective: Collective, state: RunState) -> bool:
    """Return True if it has a root that the record does not name, and all of its members are known.

    Gloo's dumps show who is in a group only once each member has used it.
    """
    is_known = collective.index > 0 or len(collective.members) == state.ranks
    return is_known and collective.op in ROOTED and collective.operation.peer is None


def _of_hidden_roots(state: RunState) -> Diagnosis | None:
    """Return that ranks stay in an operation which all members have called, if only their roots can differ."""
    blocked = find_blocked(state)
    waits = {rank: each for rank, each in blocked.items() if each.awaited}
    stuck = {rank: each for rank, each in blocked.items() if not each.awaited and _hides_root(each, state)}
    has_proof = waits or any(collective.calls[rank].failed for rank, collective in stuck.items())
    if not stuck or not has_proof or any({*each.awaited} - {*stuck, *waits} for each in waits.values()):
        return None
    ranks, collective = tuple(sorted(stuck)), next(iter(stuck.values()))
    operation = collective.operation
    special = tuple(sorted(singled_out([operation], in_roots=True)))
    named = f"; the script gives {format_ranks(special)} another one" if special else ""
    limit = "The record does not name roots: one of these ranks may be right, or the network is at fault."
    if special:
        limit = f"The record does not name roots: that {format_ranks(special)} deviates is known from the script only."
    return Diagnosis(
        "signature", special or ranks,
        f"{format_ranks(ranks).capitalize()} did not get out of {call_at(operation)}, which all of its members called: "
        f"they probably name different roots{named}.",
        (standpoint(ranks, operation),), collective.group, collective.members, collective.index,
        next=NEXT["signature"], limits=(limit,),
    )  # fmt: skip


def _extra_call(collective: Collective, finished: tuple[int, ...], state: RunState) -> Operation | None:
    """Return the call that those who wait made and those who finished did not, if the former are at fault."""
    extra = extra_call(collective, collective.arrived, finished, state.timeline.order)
    return extra or (collective.operation if len(finished) > len(collective.arrived) else None)


def _of_extra_call(collective: Collective, finished: tuple[int, ...], extra: Operation, state: RunState) -> Diagnosis:
    """Return that some ranks made a call that others, who have finished, did not make, or made fewer calls."""
    callers, call = collective.arrived, call_at(extra)
    who, others = format_ranks(callers), format_ranks(finished)
    sites = state.timeline.order.sites(collective.group, collective.members)
    is_shared = any(site.place == extra.place and at.keys() & {*finished} for site, at in sites)
    sentence = f"Only {who} called {call}; {others} finished without it."
    if is_shared:
        whose = "its" if len(callers) == 1 else "their"
        sentence = f"{who.capitalize()} made more calls than {others}, which finished without {whose} {call}."
    return Diagnosis(
        "missing", callers, sentence,
        (standpoint(callers, collective.operation), Standpoint(finished, "finished")),
        collective.group, collective.members, collective.index,
        next=NEXT["missing"] if not is_shared else MORE_CALLS if extra.bucket is None else UNEVEN,
    )  # fmt: skip


def _of_root(
    culprits: tuple[int, ...], collective: Collective, state: RunState, fates: dict[int, Fate], absent: Collection[int]
) -> Diagnosis:
    """Return that ranks wait for others; of the `absent` ones, nothing is known."""
    operation = collective.operation
    who, fate = format_ranks(culprits), fates[culprits[0]]
    kind = fate.kind
    place = f" at {format_place(fate.file, fate.line)}" if fate.line else ""
    sentence = f"{wait(collective.arrived).capitalize()} in {call_at(operation)} for {who}"
    sentence += f": it {fate.words}{place}." if len(culprits) == 1 else "."
    last = state.brought.get(culprits[0])
    standpoints = [standpoint(collective.arrived, operation)]
    standpoints += [Standpoint((rank,), fates[rank].words, fates[rank].file, fates[rank].line) for rank in culprits]
    limits = _limits_of_absence(operation) if fate.absent else ()
    if absent:
        limits += (f"{format_ranks(sorted(absent)).capitalize()} left no record; the cause may also be there.",)
    return Diagnosis(
        kind, culprits, sentence, tuple(standpoints), collective.group, collective.members, collective.index,
        f"{who.capitalize()} last called {call_at(last.operation)}." if last else "",
        _next(kind, operation, last.operation if last else None),
        limits,
    )  # fmt: skip


def _next(kind: FaultKind, operation: Operation, last: Operation | None) -> str:
    """Return what to do about a rank for which others wait in an operation; `last` is what the rank called last."""
    if kind == "left" and operation.bucket is not None:
        return UNEVEN
    repeats = last is not None and last.place == operation.place
    return f"{NEXT[kind]} {MIXED}" if kind == "left" and repeats else NEXT[kind]


def _limits_of_absence(operation: Operation) -> tuple[str, ...]:
    """Return what remains open if nothing is known of ranks, for which others wait in an operation."""
    special = singled_out([operation])
    if not special:
        return (NO_FILE.limit,)
    who = format_ranks(sorted(special))
    return NO_FILE.limit, f"The script singles out {who} in that call: another shape, dtype or root also ends ranks."


def _of_death(fates: dict[int, Fate], state: RunState) -> Diagnosis | None:
    """Return the ranks that died although none is known to wait for them."""
    dead = tuple(sorted(rank for rank, fate in fates.items() if fate.kind == "dead" and not fate.absent))
    if not dead:
        return None
    first = fates[dead[0]]
    where = Standpoint(dead, first.words, first.file, first.line)
    cause = root_cause.find(state)
    if cause.rank in state.raised and cause.rank in dead:
        return Diagnosis("dead", dead, cause.why, (where,), next=cause.mend or NEXT["raised"])
    return Diagnosis("dead", dead, f"{format_ranks(dead).capitalize()} {first.words}.", (where,), next=NEXT["dead"])


def _of_absence(absent: tuple[int, ...], state: RunState) -> Diagnosis:
    """Return that ranks left no record although the others recorded that they got stuck."""
    last = max(state.brought.values(), key=lambda event: event.time, default=None)
    where = f" The last call of the others is {call_at(last.operation)}." if last else ""
    sentence = f"{format_ranks(absent).capitalize()} left no record, and all calls of the others fit together.{where}"
    limits = [*_limits_of_absence(last.operation)] if last else [NO_FILE.limit]
    if last and last.operation.op in ROOTED and last.operation.peer is None:
        limits.append(f"The others would get stuck in this {last.operation.op} also if one rank named another root.")
    return Diagnosis("dead", absent, sentence, next=NEXT["dead"], limits=tuple(limits))
